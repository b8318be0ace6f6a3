# SPDX-License-Identifier: Apache-2.0
"""The tests of a build folder, run one at a time with a fault switched on."""
import atexit
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from mutation import tree

ADDRESS_SPACE = 12 << 30
FILE_SIZE = 2 << 30

running = set() # process groups, which end with this program


def end_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


@atexit.register
def end_all():
    for pid in list(running):
        end_group(pid)


class Test:
    def __init__(self, entry, build):
        self.name = entry['name']
        self.command = entry['command']
        props = {p['name']: p['value'] for p in entry.get('properties', ())}
        self.cwd = props.get('WORKING_DIRECTORY', build)
        self.environment = dict(v.split('=', 1) for v in props.get('ENVIRONMENT', ()))
        self.skip = int(props.get('SKIP_RETURN_CODE', 77))
        self.lock = threading.Lock()
        self.seconds = self.cpu = None
        self.reaches = set()
        self.tries = 1 # more for a test that failed without a fault and passed when it was asked again

    def run(self, scratch, switches, seconds, cpu):
        """(how it ended: passed, skipped, failed, a signal's name or 'time-out'; wall seconds; CPU seconds; its output)"""
        shutil.rmtree(scratch, ignore_errors=True)
        for d in ('cache', 'tmp'):
            os.makedirs(os.path.join(scratch, d))
        env = dict(os.environ, **self.environment)
        env.update(TILEWRIGHT_CACHE=os.path.join(scratch, 'cache'), TMPDIR=os.path.join(scratch, 'tmp'), **switches)

        limits = f'ulimit -S -v {ADDRESS_SPACE >> 10}; ulimit -f {FILE_SIZE >> 9}; ulimit -c 0; '
        if cpu:
            limits += f'ulimit -t {int(cpu) + 1}; '
        out = os.path.join(scratch, 'out')
        begin = time.monotonic()
        status = None
        with open(out, 'wb') as f:
            p = subprocess.Popen(['sh', '-c', limits + 'exec "$@"', 'sh'] + self.command, cwd=self.cwd, env=env,
                                 stdin=subprocess.DEVNULL, stdout=f, stderr=f, start_new_session=True)
            running.add(p.pid)
            nap = 0.002
            while status is None and time.monotonic() < begin + seconds:
                pid, code, use = os.wait4(p.pid, os.WNOHANG)
                if pid:
                    status = code
                else:
                    time.sleep(nap)
                    nap = min(0.05, 1.2 * nap)
            # Whatever it started ends with it.
            end_group(p.pid)
            running.discard(p.pid)
            late = status is None
            if late:
                _, status, use = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
        used = use.ru_utime + use.ru_stime
        wall = time.monotonic() - begin
        with open(out, 'rb') as f:
            text = f.read(1 << 20).decode(errors='replace')
        if late:
            how = 'time-out'
        elif p.returncode < 0:
            how = 'time-out' if -p.returncode in (signal.SIGXCPU, signal.SIGKILL) else signal.Signals(-p.returncode).name
        else:
            how = 'passed' if p.returncode == 0 else 'skipped' if p.returncode == self.skip else 'failed'
        return how, wall, used, text

    def good(self, how):
        return how in ('passed', 'skipped')

    # What its outcome depends on, but for the tree's data, which the caller adds.
    def key(self, build):
        parts = [self.name]
        for w in self.command:
            if os.path.isfile(w):
                parts.append(content(w))
        if self.name.startswith('cli_'):
            transcript = os.path.join(os.path.dirname(self.command[1]), self.name[4:] + '.t')
            parts += [content(transcript), content(os.path.join(build, 'tilewright'))]
        if self.name == 'docs':
            parts.append(content(os.path.join(build, 'tilewright')))
        return tree.digest(*parts)


def content(file):
    with open(file, 'rb') as f:
        return tree.digest(f.read())


def tests_of(build):
    out = subprocess.run(['ctest', '--test-dir', build, '--show-only=json-v1'], stdout=subprocess.PIPE, check=True).stdout
    return {t['name']: Test(t, build) for t in json.loads(out)['tests'] if t.get('command')}


def record(tests, build, data, count, memory, save, jobs, say):
    """Runs every test with no fault on: how long it takes, and which faults' places it reaches. `memory` holds what is known
    of a test whose program and `data` (a digest by its name) are the same. Returns the tests that fail as it is."""
    bad, todo, lock = [], [], threading.Lock()
    for t in sorted(tests.values(), key=lambda t: t.name):
        key = tree.digest(t.key(build), data[t.name], count)
        known = memory.get(t.name)
        if known and known['key'] == key:
            t.seconds, t.cpu, t.reaches, t.tries = known['seconds'], known['cpu'], set(known['reaches']), known.get('tries', 1)
        else:
            todo.append((t, key))
    if not todo:
        return bad
    say(f'{len(todo)} tests run once to see what they reach')

    def one(job, t, key):
        for t.tries in (1, 3, 3):
            with tempfile.NamedTemporaryFile() as f:
                f.write(bytes(count))
                f.flush()
                how, wall, cpu, text = t.run(scratch(build, job), {'TW_MUTANT_REACHED': f.name}, 900, 0)
                with open(f.name, 'rb') as g:
                    marks = g.read()
            if t.good(how):
                break
        if not t.good(how):
            bad.append(t.name)
            say(f'  {t.name} {how} with no fault on, and is left out: {text[-600:]}')
            return
        t.seconds, t.cpu, t.reaches = wall, cpu, {i for i, b in enumerate(marks) if b}
        with lock:
            memory[t.name] = {'key': key, 'seconds': round(wall, 3), 'cpu': round(cpu, 3), 'tries': t.tries, 'reaches': sorted(t.reaches)}
            save()

    # The library's own tests are short; the command's take turns with the machine.
    todo.sort(key=lambda x: (not x[0].name.startswith(('test_', 'alloc_')), x[0].name))
    in_parallel([lambda job, t=t, k=k: one(job, t, k) for t, k in todo], jobs)
    return bad


def scratch(build, job):
    return os.path.join(build, 'scratch', f'mutate-{job}')


def in_parallel(tasks, jobs):
    queue, lock, errors = list(tasks), threading.Lock(), []

    def work(job):
        while True:
            with lock:
                if not queue or errors:
                    return
                task = queue.pop(0)
            try:
                task(job)
            except BaseException as e:
                errors.append(e)
                return

    threads = [threading.Thread(target=work, args=(j,), daemon=True) for j in range(jobs)] # an interrupt ends them
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def room_of_tests(tree_root):
    """Test name -> room, by its place below tests/."""
    rooms = {}
    for at, _, files in os.walk(os.path.join(tree_root, 'tests')):
        for f in files:
            if re.match(r'(test|alloc)_.*\.c$', f):
                rooms[f[:-2]] = os.path.basename(at)
    return rooms


def try_fault(number, room, file, tests, rooms, kills, job, build, done, budget):
    """Runs the tests that reach the fault, the promising and short ones first, until one fails. `done` are those that have run
    already; more than `budget` seconds, when nothing is on, are left for later: the verdict is then `open`."""
    reach = [t for t in tests.values() if t.seconds is not None and number in t.reaches]
    if not reach:
        return {'verdict': 'unreached', 'ran': 0}

    def promise(t):
        return t.seconds / (1 + 3 * (rooms.get(t.name, t.name.split('_')[0]) == room) + kills.get((file, t.name), 0))

    queue, ran = sorted((t for t in reach if t.name not in done), key=promise), len(done)
    while queue:
        if budget is not None:
            queue = [t for t in queue if t.seconds <= budget]
            if not queue:
                return {'verdict': 'open', 'ran': ran, 'done': sorted(done), 'reached_by': sorted(t.name for t in reach)}
        # One run of a test at a time: transcripts and data have fixed places.
        t = next((t for t in queue if t.lock.acquire(blocking=False)), None)
        if not t:
            t = queue[0]
            t.lock.acquire()
        try:
            for _ in range(t.tries):
                how, _, _, _ = t.run(scratch(build, job), {'TW_MUTANT': str(number)}, 10 * t.seconds + 20, 8 * t.cpu + 5)
                if t.good(how):
                    break
        finally:
            t.lock.release()
        queue.remove(t)
        done.add(t.name)
        ran += 1
        if budget is not None:
            budget -= t.seconds
        if not t.good(how):
            kills[file, t.name] = kills.get((file, t.name), 0) + 1
            return {'verdict': 'killed', 'by': t.name, 'how': how, 'ran': ran}
    left = [t for t in reach if t.name not in done]
    return {'verdict': 'open' if left else 'survived', 'ran': ran, 'reached_by': sorted(t.name for t in reach)}
