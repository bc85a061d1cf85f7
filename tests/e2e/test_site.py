"""A real site through the node: nginx before a large tree of files, fetched by curl and wget, compared byte for byte."""
import collections
import filecmp
import os
import random
import shutil
import subprocess
import urllib.parse

import pytest

from brimtest import wait_until
from brimtest.look import Leaks, gauge, store
from brimtest.nginx import Nginx

FILES, TREE_BYTES, FILE_BYTES = 1500, 40 << 20, 8 << 20
GENERATED = [0, 1, 4095, 4096, 16_384, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 4 << 20, 12_345_678, 40 << 20]
ANYTHING = {"hosts": ["*"]}


def copy_part_of_usr_share(to):
    """Up to FILES files, from all over it: the same ones on the same machine."""
    found = []
    for at, folders, names in os.walk("/usr/share"):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(at, name)
            # wget follows what is in pages, to wherever; names that aren't UTF-8 can't be told to curl.
            if name.lower().endswith((".html", ".htm", ".xhtml", ".css")) or os.path.islink(path) or not os.path.isfile(path):
                continue
            if os.path.getsize(path) <= FILE_BYTES and path.isprintable():
                found.append(path)
    random.Random(1).shuffle(found)
    total = count = 0
    for path in found:
        size = os.path.getsize(path)
        if total + size > TREE_BYTES:
            continue
        target = os.path.join(to, os.path.relpath(path, "/usr/share"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            os.link(path, target)
        except OSError:
            shutil.copyfile(path, target)
        total += size
        count += 1
        if count == FILES:
            break
    assert count > 100, "there is next to nothing in /usr/share"


def generate(to, sizes):
    os.mkdir(to)
    rng = random.Random(2)
    block = rng.randbytes(1 << 20)
    for size in sizes:
        with open(os.path.join(to, f"{size} bytes #1.bin"), "wb") as f:
            while (left := size - f.tell()) > 0:
                turned = rng.randrange(len(block))
                f.write((block[turned:] + block[:turned])[:left])


@pytest.fixture(scope="module")
def site():
    nginx = Nginx()
    try:
        copy_part_of_usr_share(nginx.tree)
        generate(os.path.join(nginx.tree, "generated"), GENERATED)
        yield nginx.start()
    finally:
        nginx.stop()


def paths_of(nginx):
    return sorted(os.path.relpath(os.path.join(at, name), nginx.tree)
                  for at, _, names in os.walk(nginx.tree) for name in names)


def curl_all(node, nginx, paths, out):
    """Fetches all, 16 at a time; compares; how often each Cache-Status was seen."""
    os.mkdir(out)
    config = os.path.join(out, "config")
    with open(config, "w") as f:
        for i, path in enumerate(paths):
            f.write(f'url = "{node.url}/{urllib.parse.quote(path)}"\noutput = "{out}/{i}"\n')
            f.write('write-out = "%{http_code} %header{cache-status}\\n"\n')
    done = subprocess.run(["curl", "-sS", "--parallel", "--parallel-max", "16", "--config", config],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == len(paths) and all(a.startswith("200 ") for a in answers), collections.Counter(answers)
    for i, path in enumerate(paths):
        got = os.path.join(out, str(i))
        if os.path.getsize(os.path.join(nginx.tree, path)) == 0:  # for which curl makes no file
            assert not os.path.exists(got) or os.path.getsize(got) == 0
        else:
            assert filecmp.cmp(got, os.path.join(nginx.tree, path), shallow=False), path
    shutil.rmtree(out)
    return collections.Counter("hit" if "; hit" in a else a for a in answers)


def wait_committed(node):
    wait_until(lambda: node.status()["claims"] == 0, "all to be committed", 20)


def requests_to_origin(node):
    return sum(v for k, v in node.metrics().items() if k.startswith("brim_origin_requests_total"))


def refused(node):
    """Fills that the store refused so far (when the disk doesn't keep up): these are fetched again."""
    return store(node)["fills_refused"]


def until_warm(node, fetch_all):
    """fetch_all(pass's name) until the origin is asked for nothing more: the second time, but for what was refused."""
    asked = requests_to_origin(node)
    for number in range(4):
        spared = refused(node)
        fetch_all(f"warm {number}")
        wait_committed(node)
        before, asked = asked, requests_to_origin(node)
        if asked == before:
            return
        assert asked - before <= spared, f"{asked - before} were asked for again, {spared} had been refused"
    raise AssertionError("the disk never keeps up")


def all_three_times(node, nginx, tmp_path):
    paths = paths_of(nginx)
    cold = curl_all(node, nginx, paths, str(tmp_path / "cold"))
    assert cold["hit"] == 0 and cold["200 brim; fwd=uri-miss; stored"] >= len(paths) - refused(node), cold
    wait_committed(node)
    seen = []
    until_warm(node, lambda name: seen.append(curl_all(node, nginx, paths, str(tmp_path / name))))
    assert seen[-1] == {"hit": len(paths)}
    node.may_crash = True
    node.kill_all()
    node.start()
    after = curl_all(node, nginx, paths, str(tmp_path / "after"))
    assert after == {"hit": len(paths)}
    assert requests_to_origin(node) == 0


@pytest.mark.limit(240)
def test_a_whole_tree_by_curl(site, make_node, tmp_path):
    node = make_node(site, site=ANYTHING, size="512MiB")
    all_three_times(node, site, tmp_path)
    wait_until(lambda: gauge(node, "connections") == 0, "curl's connections to end")


def wget_all(node, nginx, paths, out):
    os.mkdir(out)
    done = subprocess.run(["wget", "-r", "-l", "inf", "-nH", "-np", "-nv", "-e", "robots=off", "--tries=1",
                           "--restrict-file-names=nocontrol", "-P", out, node.url + "/"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-4000:]
    for path in paths:
        assert filecmp.cmp(os.path.join(out, path), os.path.join(nginx.tree, path), shallow=False), path
    shutil.rmtree(out)


@pytest.mark.limit(240)
def test_a_whole_tree_by_wget(site, make_node, tmp_path):
    node = make_node(site, site=ANYTHING, size="512MiB", workers=1)
    paths = paths_of(site)
    before = Leaks(node)
    wget_all(node, site, paths, str(tmp_path / "cold"))
    wait_committed(node)
    until_warm(node, lambda name: wget_all(node, site, paths, str(tmp_path / name)))
    node.may_crash = True
    node.kill_all()
    node.start()
    wget_all(node, site, paths, str(tmp_path / "after"))
    assert requests_to_origin(node) == 0
    before.after()


@pytest.mark.long
@pytest.mark.limit(600)
def test_large_files(make_node, tmp_path):
    nginx = Nginx()
    try:
        generate(os.path.join(nginx.tree, "generated"), [100 << 20, 300 << 20, (300 << 20) + 1])
        node = make_node(nginx.start(), site=ANYTHING, size="2GiB")
        all_three_times(node, nginx, tmp_path)
    finally:
        nginx.stop()
