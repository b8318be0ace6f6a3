// SPDX-License-Identifier: Apache-2.0
// trace_processor.js FOLDER FILE SQL...: has Perfetto's own trace processor read a trace, and prints the first column of
// each query's result, which must be of texts, a row a line. FOLDER is a build of Perfetto's page: it has the program as
// trace_processor*.wasm, and engine_bundle.js, the worker that runs it. The page talks to that worker through a port, by
// Perfetto's protocol TraceProcessorRpc; this program stands in for the page.
"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");
const [folder, file, ...queries] = process.argv.slice(2);
const CHUNK = 1 << 20;
const APPEND = 1, FINALIZE = 2, QUERY = 3; // TraceProcessorRpc.TraceProcessorMethod

// ---- protobuf

function varint(n) {
    const out = [];
    for (; n > 127; n = Math.floor(n / 128)) out.push(n % 128 + 128);
    return Buffer.from([...out, n]);
}

function number(field, n) {
    return Buffer.concat([varint(field * 8), varint(n)]);
}

function bytes(field, data) {
    return Buffer.concat([varint(field * 8 + 2), varint(data.length), data]);
}

// The values of all fields with that number.
function all(data, field) {
    const found = [];
    let at = 0;
    const read = () => {
        let n = 0, unit = 1;
        for (; data[at] > 127; unit *= 128) n += data[at++] % 128 * unit;
        return n + data[at++] * unit;
    };
    while (at < data.length) {
        const key = read(), sizes = {1: 8, 5: 4};
        const size = key % 8 === 2 ? read() : sizes[key % 8];
        const value = size === undefined ? read() : data.subarray(at, at += size);
        if (Math.floor(key / 8) === field) found.push(value);
    }
    return found;
}

// ---- the worker

console.log = console.warn = () => {};
const read = (url) => new Uint8Array(fs.readFileSync(path.join(folder, path.basename(url))));

Object.defineProperty(process.versions, "node", {value: undefined}); // The bundle asks for it, and wants a browser.
globalThis.self = globalThis;
globalThis.location = {href: "file:///"};
globalThis.WorkerGlobalScope = class {};
globalThis.XMLHttpRequest = class {
    open(method, url) {
        this.url = url;
    }
    send() {
        this.status = 200;
        this.response = read(this.url).buffer;
    }
};
const replies = [];
const port = {postMessage: (data) => replies.push(Buffer.from(data))};
vm.runInThisContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), "engine_bundle.js");
self.onmessage({data: port});

let sent = 0;
// Sends a request. Returns the replies to it, messages of TraceProcessorRpc.
function ask(method, ...rest) {
    replies.length = 0;
    port.onmessage({data: new Uint8Array(bytes(1, Buffer.concat([number(1, sent++), number(2, method), ...rest])))});
    const found = replies.flatMap((stream) => all(stream, 1));
    for (const reply of found)
        for (const error of all(reply, 5)) throw new Error(error.toString());
    return found;
}

function load() {
    const data = fs.readFileSync(file);
    for (let at = 0; at < data.length; at += CHUNK)
        for (const reply of ask(APPEND, bytes(101, data.subarray(at, at + CHUNK))))
            for (const result of all(reply, 201))
                for (const error of all(result, 2)) throw new Error(error.toString());
    ask(FINALIZE);
}

function query(sql) {
    for (const reply of ask(QUERY, bytes(103, bytes(1, Buffer.from(sql)))))
        for (const result of all(reply, 203)) {
            for (const error of all(result, 2)) throw new Error(error.toString());
            for (const batch of all(result, 3))
                for (const texts of all(batch, 5)) process.stdout.write(texts.toString().replaceAll("\0", "\n"));
        }
}

// The worker takes messages once its promises are settled, as in a browser, where messages come later than these.
setTimeout(() => {
    try {
        load();
        for (const sql of queries) query(sql);
    } catch (error) {
        process.stderr.write(`${path.basename(file)}: ${error.message}\n`);
        process.exit(1);
    }
}, 0);
