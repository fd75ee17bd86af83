"""Strangers: connections to a port from somebody who is no rank of the job."""

import contextlib
import hashlib
import hmac
import os
import resource
import socket
import struct
import threading

LISTEN = "0A"  # state in /proc/net/tcp


def sockets_of(pids):
    """Inodes of the sockets that these processes hold."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for entry in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    target = os.readlink(f"/proc/{pid}/fd/{entry}")
                    if target.startswith("socket:["):
                        found.add(target[8:-1])
    return found


def listening(pids):
    """Ports on which these processes listen, in order."""
    inodes = sockets_of(pids)
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table) as file:
            for line in file.readlines()[1:]:
                words = line.split()
                if words[3] == LISTEN and words[9] in inodes:
                    ports.add(int(words[1].rsplit(":", 1)[1], 16))
    return sorted(ports)


def text_of_store(text):
    """A string as LibTorch's store reads it."""
    return struct.pack("<Q", len(text)) + text.encode()


def store_words():
    """Greets LibTorch's store and deletes what the job keeps there."""
    greeting = struct.pack("<BI", 0, 0x3C85F7CE)
    return greeting + b"".join(
        struct.pack("<B", 8) + text_of_store(key)
        for key in ("/fmengine/0/token", "/fmengine/0/member/1", "/fmengine/0/members")
    )


KINDS = {  # kind -> (connections, what each sends, whether it stays)
    "silent": (1, lambda rng: b"", True),
    "many silent": (200, lambda rng: b"", True),
    "one byte": (1, lambda rng: rng.randbytes(1), True),
    "random bytes": (20, lambda rng: rng.randbytes(rng.randint(1, 4000)), True),
    "http": (3, lambda rng: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", True),
    "store": (2, lambda rng: store_words(), True),
    "many connects": (2000, lambda rng: b"", False),
}
WORST = ("many silent", "one byte", "random bytes")  # in every run of the suite, under mpirun too

# At ports that ask for a job token (comm/meet/job_secret.h): 100 at once.
MAGIC = b"fmetrust"
NONCE_BYTES = 32
CHALLENGE_BYTES = len(MAGIC) + NONCE_BYTES
CROWD = 100


def proof(token, challenge, nonce):
    """What the connecting side answers."""
    mac = hmac.new(token.encode(), b"c" + challenge[len(MAGIC) :] + nonce, hashlib.sha256)
    return MAGIC + nonce + mac.digest()


def read_all(connection, count):
    """So many bytes; fewer where the other side is slow or closes."""
    taken = b""
    with contextlib.suppress(OSError):
        while len(taken) < count:
            more = connection.recv(count - len(taken))
            if not more:
                break
            taken += more
    return taken


class Relay:
    """Passes on what two ends of a connection say, and keeps what the first one said."""

    def __init__(self, port):
        self.to_port = port
        self.listener = Listener(None, self.serve)
        self.port = self.listener.port
        self.recording = b""

    def serve(self, connection):
        """Connects, and copies both ways until one side closes."""
        other = socket.create_connection(("127.0.0.1", self.to_port))
        self.listener.taken.append(other)
        threading.Thread(target=self.copy, args=(connection, other, True), daemon=True).start()
        threading.Thread(target=self.copy, args=(other, connection, False), daemon=True).start()

    def copy(self, source, target, keep):
        """One way."""
        with contextlib.suppress(OSError):
            while chunk := source.recv(65536):
                if keep:
                    self.recording += chunk
                target.sendall(chunk)
            target.shutdown(socket.SHUT_WR)

    def close(self):
        """Both ends are closed."""
        self.listener.close()


class Strangers:
    """Connections that stay until they are closed."""

    def __init__(self, rng):
        self.rng = rng
        self.held = []
        self.patience_s = 1
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def visit(self, port, kind):
        """All connections of a kind to a port; how many were taken."""
        number, words, stays = KINDS[kind]
        taken = lost = 0
        for _ in range(number):
            connection = socket.socket()
            connection.settimeout(0.5)
            try:
                connection.connect(("127.0.0.1", port))
                connection.sendall(words(self.rng))
            except OSError:
                connection.close()
                lost += 1
                if not taken or lost == 3:  # the queue of those who wait to be let in is full
                    return taken
                continue
            taken += 1
            if stays:
                self.held.append(connection)
            else:
                connection.close()
        return taken

    def crowd(self, port, speak):
        """100 connections at once, each of which speaks; how many were taken."""
        self.patience_s = 1
        connections = []
        for _ in range(CROWD):
            connection = socket.socket()
            connection.settimeout(5)
            with contextlib.suppress(OSError):
                connection.connect(("127.0.0.1", port))
            connections.append(connection)
        self.held += connections
        taken = 0
        for connection in connections:
            with contextlib.suppress(OSError):
                speak(connection)
                taken += 1
        return taken

    def half_handshake(self, connection):
        """A proof that does not end."""
        connection.sendall(MAGIC + self.rng.randbytes(self.rng.randint(0, 63)))

    def wrong_token(self, connection):
        """A whole proof, of another token; without a challenge where no rank accepts yet."""
        connection.settimeout(self.patience_s)
        challenge = read_all(connection, CHALLENGE_BYTES)
        if not challenge:
            self.patience_s = 0.01
        token = "".join(self.rng.choices("0123456789abcdef", k=32))
        connection.sendall(proof(token, challenge, self.rng.randbytes(NONCE_BYTES)))

    def no_token(self, connection):
        """The hello of a rank without a token."""
        connection.sendall(b"fmemeet1" + struct.pack("<HHI", 1, 0, 20) + b"1 3 host 1 1.1.1.1 1")

    def close(self):
        """They leave."""
        for connection in self.held:
            connection.close()
        self.held.clear()


ANSWERS = {  # of a listener that is no rank
    "silent": None,
    "closes": b"",
    "random bytes": b"\x17\xf3\x00\x9b" * 64,
    "http": b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
}


class Listener:
    """Another service on a port of 127.0.0.1."""

    def __init__(self, answer, on_connection=None):
        self.answer = answer
        self.on_connection = on_connection
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(64)
        self.port = self.socket.getsockname()[1]
        self.taken = []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        """Answers until the socket is closed."""
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                self.taken.append(connection)
                if self.on_connection:
                    self.on_connection(connection)
                if self.answer is None:
                    continue
                with contextlib.suppress(OSError):
                    connection.sendall(self.answer)
                    connection.shutdown(socket.SHUT_WR)

    def close(self):
        """The service ends."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(5)
        for connection in self.taken:
            connection.close()
