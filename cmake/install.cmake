# SPDX-License-Identifier: Apache-2.0
# What `make install` installs: the command, the public headers, the library shared and static, the part of it that decides
# as a library of its own, and what pkg-config and CMake need to find them. All libraries export functions that public
# headers declare, and nothing else.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(objects "")
foreach(room ${ROOMS})
  list(APPEND objects $<TARGET_OBJECTS:tw_${room}>)
endforeach()

add_library(tilewright_shared SHARED EXCLUDE_FROM_ALL ${objects})
set_target_properties(tilewright_shared PROPERTIES OUTPUT_NAME tilewright LINKER_LANGUAGE C VERSION ${PROJECT_VERSION}
                                                   SOVERSION ${PROJECT_VERSION_MAJOR})
set(private ${JANSSON} ${PCRE2} ${UTF8PROC} ${OPENBLAS} ${SQLITE} ${MINIZIP} ${ZLIB})
target_link_libraries(tilewright_shared PRIVATE ${private} Threads::Threads m ${CMAKE_DL_LIBS})
target_link_options(tilewright_shared PRIVATE -Wl,--no-undefined)

# The archive holds one object, in which what is hidden has become local: names inside cannot meet a program's own.
set(archive ${CMAKE_BINARY_DIR}/libtilewright.a)
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/tilewright-objects.txt CONTENT "$<JOIN:${objects},\n>\n")
add_custom_command(
  OUTPUT ${archive}
  COMMAND ${CMAKE_LINKER} -r -o tilewright.o @tilewright-objects.txt
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden tilewright.o
  COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
  COMMAND ${CMAKE_AR} qcs ${archive} tilewright.o
  WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
  DEPENDS ${objects}
  VERBATIM COMMAND_EXPAND_LISTS)
add_custom_target(tilewright_static DEPENDS ${archive})
add_custom_target(libraries DEPENDS tilewright_shared tilewright_static tilewright_select)

# What a program that links the archive must name itself.
set(TW_LIBS_PRIVATE "")
foreach(library ${private})
  get_filename_component(name ${library} NAME_WE)
  string(REGEX REPLACE "^lib" "-l" name ${name})
  string(APPEND TW_LIBS_PRIVATE " ${name}")
endforeach()
get_filename_component(TW_OPENBLAS_FOLDER ${OPENBLAS} DIRECTORY)
# From where the file for pkg-config lies to the prefix, so that the whole may be moved.
file(RELATIVE_PATH TW_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/tilewright.pc.in tilewright.pc @ONLY)
configure_package_config_file(cmake/tilewright-config.cmake.in tilewright-config.cmake PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)
write_basic_package_version_file(tilewright-config-version.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS tilewright_shared tilewright_select LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/tilewright DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_BINARY_DIR}/tilewright.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_BINARY_DIR}/tilewright-config.cmake ${CMAKE_BINARY_DIR}/tilewright-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tilewright)
install(PROGRAMS ${CMAKE_BINARY_DIR}/tilewright DESTINATION ${CMAKE_INSTALL_BINDIR})
