"""The digests of a program: BMv2's by nanomsg, and the embedded switch's by P4Runtime.

Both send equal ones once, because none is acknowledged.
"""

import contextlib
import ctypes
import ctypes.util
import queue
import struct
import subprocess
import threading
import time

import grpc
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc

# Time without a digest after which there is none, and after the expected number of them.
CALL_S, LAST_S, MORE_S = 60, 1, 0.5
# From nanomsg's headers.
AF_SP, NN_SUB, NN_SUB_SUBSCRIBE, NN_SOL_SOCKET, NN_RCVTIMEO, NN_STAT_CURRENT_CONNECTIONS = 1, 33, 1, 0, 5, 201
# Topic, device, context, list, buffer and number of samples.
LEARNED = struct.Struct("<4sQIiQI")
NANOMSG = ctypes.CDLL(ctypes.util.find_library("nanomsg"))
NANOMSG.nn_get_statistic.restype = ctypes.c_uint64


class Bmv2Digests:
    """Receives the digests of a BMv2 with this --notifications-addr."""

    def __init__(self, address, widths):
        self.widths = widths
        self.socket = NANOMSG.nn_socket(AF_SP, NN_SUB)
        NANOMSG.nn_setsockopt(self.socket, NN_SUB, NN_SUB_SUBSCRIBE, b"", 0)
        NANOMSG.nn_connect(self.socket, address.encode())
        deadline = time.monotonic() + CALL_S
        while not NANOMSG.nn_get_statistic(self.socket, NN_STAT_CURRENT_CONNECTIONS):
            if time.monotonic() > deadline:
                raise TimeoutError("BMv2 sends no notifications")
            time.sleep(0.001)
        # BMv2's side of the connection is ready a little later.
        time.sleep(0.05)

    def collect(self):
        """Returns the digests so far, after which there are none for a while: [values]."""
        found, buffer = [], ctypes.create_string_buffer(1 << 16)
        timeout = ctypes.c_int(int(LAST_S * 1000))
        NANOMSG.nn_setsockopt(self.socket, NN_SOL_SOCKET, NN_RCVTIMEO, ctypes.byref(timeout), ctypes.sizeof(timeout))
        while (length := NANOMSG.nn_recv(self.socket, buffer, len(buffer), 0)) >= 0:
            message = buffer.raw[:length]
            if not message.startswith(b"LEA"):
                continue
            data = message[32:]
            size = sum((width + 7) // 8 for width in self.widths)
            for start in range(0, len(data), size):
                sample, values = data[start : start + size], []
                for width in self.widths:
                    values.append(int.from_bytes(sample[: (width + 7) // 8], "big"))
                    sample = sample[(width + 7) // 8 :]
                found.append(tuple(values))
        return found

    def end(self):
        NANOMSG.nn_close(self.socket)


def weir_digests(command, compiled, p4info, grpc_port, frames, prepare, wait_for, expected):
    """Returns the digests of the embedded switch, which `command` starts, for these packet-outs: [values]. `prepare` makes its
    sessions, groups and meters. After a frame, `wait_for` returns when the next one may be sent. More than the expected number of
    digests is not waited for long."""
    channel = grpc.insecure_channel(f"127.0.0.1:{grpc_port}")
    process = subprocess.Popen(command, cwd=compiled.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        info = text_format.Parse(p4info.read_text(), p4info_pb2.P4Info())
        grpc.channel_ready_future(channel).result(CALL_S)
        stub, requests, answers = p4runtime_pb2_grpc.P4RuntimeStub(channel), queue.Queue(), queue.Queue()
        stream = stub.StreamChannel(iter(requests.get, None))
        request = p4.StreamMessageRequest()
        request.arbitration.election_id.low = 1
        requests.put(request)
        next(stream)
        config = p4.SetForwardingPipelineConfigRequest(action="VERIFY_AND_COMMIT")
        config.election_id.low = 1
        config.config.p4info.CopyFrom(info)
        config.config.p4_device_config = compiled.read_bytes()
        stub.SetForwardingPipelineConfig(config, timeout=CALL_S)
        write = p4.WriteRequest()
        write.election_id.low = 1
        for digest in info.digests:
            entry = write.updates.add(type=p4.Update.INSERT).entity.digest_entry
            entry.digest_id = digest.preamble.id
            entry.config.max_list_size, entry.config.ack_timeout_ns = 1, 10**12
        stub.Write(write, timeout=CALL_S)
        prepare()

        def receive():
            with contextlib.suppress(grpc.RpcError):
                for answer in stream:
                    answers.put(answer)

        threading.Thread(target=receive, daemon=True).start()
        for frame in frames:
            request = p4.StreamMessageRequest()
            request.packet.payload = frame
            requests.put(request)
            wait_for(frame)
        found = []
        try:
            while True:
                answer = answers.get(timeout=MORE_S if len(found) >= expected else CALL_S)
                if answer.WhichOneof("update") == "digest":
                    found += [tuple(int.from_bytes(it.bitstring, "big") for it in data.struct.members) for data in answer.digest.data]
        except queue.Empty:
            return found
    except (grpc.RpcError, grpc.FutureTimeoutError) as error:
        raise TimeoutError(f"weir switch does not answer: {error}") from None
    finally:
        process.kill()
        process.wait()
        channel.close()
