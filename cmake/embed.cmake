# SPDX-License-Identifier: Apache-2.0
# cmake -DFROM=FILE -DTO=FILE.c -DNAME=IDENTIFIER -P embed.cmake: writes a C file that defines
# `const unsigned char IDENTIFIER[]`, the bytes of FILE and a terminating 0.
file(READ "${FROM}" bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE "${TO}" "extern const unsigned char ${NAME}[];\nconst unsigned char ${NAME}[] = {\n${bytes}0};\n")
