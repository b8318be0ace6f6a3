# SPDX-License-Identifier: Apache-2.0
"""read_perfetto.py FILE: reads a trace by Perfetto's own schema, and complains of whatever that does not know or what its
trace processor would drop. The program $TRACE_PROCESSOR, where it is set, reads the file, too, and so does the trace
processor of Perfetto's page, $TRACE_PROCESSOR_PAGE (trace_processor.js)."""
import collections
import os
import subprocess
import sys
import zlib

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

EVENT = schema.TrackEvent


def check_known(message, where):
    unknown = [f.field_number for f in UnknownFieldSet(message)]
    assert not unknown, f"{where}: unknown fields {unknown}"
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
        for inner in value if repeated else [value]:
            check_known(inner, f"{where}.{field.name}")


def packets_of(data):
    trace = schema.Trace()
    assert trace.ParseFromString(data) == len(data)
    assert not list(UnknownFieldSet(trace))
    for packet in trace.packet:
        if packet.HasField("compressed_packets"):
            assert len(packet.ListFields()) == 1
            yield from packets_of(zlib.decompress(packet.compressed_packets))
        else:
            yield packet


def read(path):
    names, categories, notes = {}, {}, {}
    tracks, processes, threads = {}, {}, {}
    open_slices, last, counts = collections.defaultdict(list), {}, collections.Counter()
    flows, clocks, cleared = {}, {}, False
    with open(path, "rb") as f:
        data = f.read()
    for n, packet in enumerate(packets_of(data)):
        check_known(packet, f"packet {n}")
        assert packet.trusted_packet_sequence_id == 1
        if packet.sequence_flags & packet.SEQ_INCREMENTAL_STATE_CLEARED:
            assert not cleared and n == 0 and packet.first_packet_on_sequence
            cleared = True
            clock = packet.trace_packet_defaults.timestamp_clock_id
        else:
            assert cleared and packet.sequence_flags & packet.SEQ_NEEDS_INCREMENTAL_STATE
        for table, entries in ((categories, packet.interned_data.event_categories),
                               (names, packet.interned_data.event_names),
                               (notes, packet.interned_data.debug_annotation_names)):
            for entry in entries:
                assert entry.iid and entry.iid not in table
                table[entry.iid] = entry.name
        if packet.HasField("clock_snapshot"):
            clocks = {c.clock_id: c.timestamp for c in packet.clock_snapshot.clocks}
            assert packet.clock_snapshot.primary_trace_clock in clocks and clock in clocks and 64 <= clock < 128
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid and track.uuid not in tracks
            assert not track.HasField("parent_uuid") or track.parent_uuid in tracks
            tracks[track.uuid] = track
            if track.HasField("process"):
                assert track.process.pid not in processes
                processes[track.process.pid] = track
            if track.HasField("thread"):
                assert track.thread.pid in processes and track.thread.tid not in threads
                assert track.thread.tid not in processes
                threads[track.thread.tid] = track
        if packet.HasField("track_event"):
            event = packet.track_event
            track = tracks[event.track_uuid]
            assert clocks and packet.HasField("timestamp")
            assert packet.timestamp >= last.get(event.track_uuid, 0), f"packet {n}: time goes back"
            last[event.track_uuid] = packet.timestamp
            counts[EVENT.Type.Name(event.type)] += 1
            name = names[event.name_iid] if event.HasField("name_iid") else event.name
            for iid in event.category_iids:
                assert iid in categories
            for note in event.debug_annotations:
                assert note.name_iid in notes and note.WhichOneof("value")
            if event.type == EVENT.TYPE_SLICE_BEGIN:
                assert name
                open_slices[event.track_uuid].append(name)
            elif event.type == EVENT.TYPE_SLICE_END:
                open_slices[event.track_uuid].pop()
            elif event.type == EVENT.TYPE_COUNTER:
                assert track.HasField("counter") and event.HasField("counter_value")
            else:
                assert event.type == EVENT.TYPE_INSTANT and name
            for flow in event.flow_ids:
                assert flow not in flows
                flows[flow] = packet.timestamp
            for flow in event.terminating_flow_ids:
                assert flows.pop(flow) <= packet.timestamp
    assert cleared and not flows and not any(open_slices.values())
    counts["bytes"] = len(data)
    return counts


def ask_trace_processor(path, program, counts):
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
    with TraceProcessor(trace=path, config=TraceProcessorConfig(bin_path=program)) as tp:
        wrong = [(r.name, r.value) for r in tp.query(
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0")]
        assert not wrong, wrong
        slices = next(iter(tp.query("select count(*) as n, sum(dur < 0) as open from slice")))
        assert slices.n == counts["TYPE_SLICE_BEGIN"] + counts["TYPE_INSTANT"] and not slices.open


def ask_page(path, page, counts):
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trace_processor.js")
    query = "select count(*) || ' ' || ifnull(sum(dur < 0), 0) from slice"
    answer = subprocess.run(["node", program, page, path, query], check=True, capture_output=True, text=True)
    assert answer.stdout.split() == [str(counts["TYPE_SLICE_BEGIN"] + counts["TYPE_INSTANT"]), "0"], answer.stdout


if __name__ == "__main__":
    found = read(sys.argv[1])
    if os.environ.get("TRACE_PROCESSOR"):
        ask_trace_processor(sys.argv[1], os.environ["TRACE_PROCESSOR"], found)
    if os.environ.get("TRACE_PROCESSOR_PAGE"):
        ask_page(sys.argv[1], os.environ["TRACE_PROCESSOR_PAGE"], found)
    print(os.path.basename(sys.argv[1]), dict(found))
