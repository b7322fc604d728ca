"""The gateway of a host: the one port through which a job's processes on several hosts speak to each other.

ps-lite neither authenticates nor encrypts, so it listens at unix sockets alone. What it sends to a process elsewhere
goes through a gateway on either host; these let in who has the job's secret and encrypt all that they carry.

    credentials.py   the job's secret as a key and a certificate, by which both ends of a connection know each other
    handshake.py     opening a connection to a gateway, and accepting one
    frames.py        what travels on it, encrypted and authenticated
    forwarding.py    carrying a stream between such a connection and a unix socket
    process.py       the gateway's process
    routes.py        which process of a host starts it, and what it carries
    start.py         starting it, and its end
"""
