"""A command that misbehaves on purpose, one act an argument. The document's path may follow."""

import os
import signal
import socket
import sys
import time

MIB = 1 << 20


def say(words):
    print(words, flush=True)


def sleep_for_ever():
    while True:
        time.sleep(1000)


def echo():
    name = sys.argv[2] if len(sys.argv) > 2 else None
    data = open(name, "rb").read() if name else sys.stdin.buffer.read()
    sys.stdout.buffer.write(data)


def where():
    say(sys.argv[2])


def around():
    say("pid %d parent %d" % (os.getpid(), os.getppid()))
    say("variables %s" % ",".join(sorted(os.environ)))
    say("descriptors %s" % ",".join(str(n) for n in range(256) if is_open(n)))
    names = ["bin", "dev", "etc", "home", "input", "mnt", "opt", "proc", "root", "run", "srv", "sys", "usr", "var"]
    say("root %s" % ",".join(name for name in names if os.path.lexists("/" + name)))
    say("folder %s" % os.getcwd())


def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def exit_3():
    say("half a text")
    try:
        raise ValueError("a page that cannot be read")
    except ValueError:
        import traceback

        traceback.print_exc()
        sys.exit(3)


def nothing():
    pass


def hang():
    sleep_for_ever()


def spin():
    while True:
        pass


def spin_in_children():
    for _ in range(4):
        if os.fork() == 0:
            spin()
    sleep_for_ever()


def allocate():
    kept = []
    while True:
        kept.append(bytearray(MIB))


def hungry_child():
    if os.fork() == 0:
        allocate()
    os.wait()
    say("a child has died")


def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            sleep_for_ever()
        os._exit(0)
    os.wait()
    say("the parent is done")


def fork_bomb():
    made = 0
    while made < 10000:
        try:
            if os.fork() == 0:
                sleep_for_ever()
        except OSError as error:
            sys.exit("after %d: %s" % (made, error.strerror))
        made += 1
    say("%d processes" % made)


def fill():
    piece = bytes(MIB)
    with open(os.path.join(os.environ["TMPDIR"], "big"), "wb") as file:
        for _ in range(1024):
            file.write(piece)
    say("written")


def fill_by_files():
    piece = bytes(MIB)
    for number in range(1024):
        with open(os.path.join(os.environ["TMPDIR"], str(number)), "wb") as file:
            file.write(piece)
    say("written")


def fill_by_names():
    for number in range(100000):
        open(os.path.join(os.environ["TMPDIR"], str(number)), "w").close()
    say("written")


def exceed_file_size():
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    fill()


def flood():
    piece = b"a line without an end " * 1000
    while True:
        sys.stdout.buffer.write(piece)


def say_just_too_much():
    sys.stdout.buffer.write(b"x" * (4 * MIB + 1))


def say_just_enough():
    sys.stdout.buffer.write(b"x" * (4 * MIB))


def complain():
    piece = "a complaint without an end\n" * 1000
    for _ in range(1000):
        sys.stderr.write(piece)
    sys.stderr.write("the last word")
    sys.exit(1)


def passwd():
    say(open("/etc/passwd").read())


def shadow():
    say(open("/etc/shadow").read())


def look():
    # A file that an argument names is shown: so it comes without its first slash.
    say(open("/" + sys.argv[2]).read())


def write_outside():
    for folder in ["/", "/usr", "/etc", "/usr/lib", "/dev", "/input"]:
        try:
            open(os.path.join(folder, "lazaret-was-here"), "w").close()
            say("%s written" % folder)
        except OSError as error:
            say("%s %s" % (folder, error.strerror))


def run_from_scratch():
    path = os.path.join(os.environ["TMPDIR"], "program")
    with open("/bin/true", "rb") as program, open(path, "wb") as copy:
        copy.write(program.read())
    os.chmod(path, 0o755)
    os.execv(path, [path])


def open_socket():
    socket.create_connection(("127.0.0.1", 1))


def namespace():
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x10000000) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    say("a namespace")


def kill_parent():
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getppid(), signal.SIGTERM)
    say("still here")


def kill_all():
    os.kill(-1, signal.SIGKILL)


def kill_itself():
    os.kill(os.getpid(), signal.SIGKILL)


def terminate_itself():
    os.kill(os.getpid(), signal.SIGTERM)


def ignore_term():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sleep_for_ever()


def close_stdout():
    say("a beginning")
    os.close(1)
    sleep_for_ever()


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def segv():
    os.kill(os.getpid(), signal.SIGSEGV)


def abort():
    os.abort()


def drip():
    while True:
        say("x")
        time.sleep(0.2)


def broken_text():
    sys.stdout.buffer.write(b"caf\xe9 \xf0\x9f\x98")


def json():
    sys.stdout.write('{"text": "the text", "metadata": {"title": "The Title", "author": "A"}}')


ACT = sys.argv[1].replace("-", "_") if len(sys.argv) > 1 else ""
if ACT == "__version":
    print("misbehaving 1.0")
else:
    globals()[ACT]()
