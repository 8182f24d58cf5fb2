"""Acts like another tool on a process: sends the bytes of a counters session or of five heap dumps to its diagnostics
socket.

    beside.py counters|gcdump PID SECONDS FOLDER_OF_ITS_SOCKET
"""

import glob
import socket
import struct
import sys
import threading
import time

# Keywords of Microsoft-Windows-DotNETRuntime that dotnet-gcdump requests, among them GC, GCHeapDump, GCHeapCollect and
# Type.
HEAP_DUMP = 0x1980009


def text(words):
    return struct.pack("<I", len(words) + 1) + (words + "\0").encode("utf-16le")


def command(address, number, payload):
    """Sends a command of EventPipe (set 2). Returns the connection, which stays open, and the body of the answer."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    connection.sendall(b"DOTNET_IPC_V1\0" + struct.pack("<HBBH", 20 + len(payload), 2, number, 0) + payload)
    head = connection.recv(20, socket.MSG_WAITALL)
    body = connection.recv(struct.unpack("<H", head[14:16])[0] - 20, socket.MSG_WAITALL)
    return connection, body


def session(address, megabytes, provider, keywords, level, arguments, seconds):
    """Runs one session for `seconds` and reads its stream to the end."""
    what = struct.pack("<QI", keywords, level) + text(provider) + (text(arguments) if arguments else struct.pack("<I", 0))
    connection, body = command(address, 3, struct.pack("<IIBI", megabytes, 1, 0, 1) + what)
    stop = threading.Timer(seconds, lambda: command(address, 1, body[:8]))
    stop.daemon = True
    stop.start()
    while connection.recv(1 << 20):
        pass


def main():
    kind, pid, seconds, folder = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
    until, found = time.monotonic() + 20, []
    while not found and time.monotonic() < until:
        found = glob.glob(f"{folder}/dotnet-diagnostic-{pid}-*-socket")
        time.sleep(0.05)
    if kind == "counters":
        session(found[0], 64, "System.Runtime", 2**64 - 1, 4, "EventCounterIntervalSec=5", seconds)
        return
    time.sleep(10)
    for _ in range(5):
        session(found[0], 256, "Microsoft-Windows-DotNETRuntime", HEAP_DUMP, 5, None, 2)
        time.sleep(6)


if __name__ == "__main__":
    main()
