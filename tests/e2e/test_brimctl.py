"""brimctl: every command, for people and with --json; what it says when something is wrong."""
import json
import os
import re
import secrets
import socket
import subprocess
import threading

import pytest

from brimtest import wait_until
from brimtest.node import ROOT, binary, free_port

FRESH = {"Cache-Control": "max-age=3600"}
HOSTS = ("a.test", "b.test", "c.test")


@pytest.fixture
def stored(origin, make_node):
    """A node with two sites and an object of each host in it."""
    node = make_node(origin)
    node.conf["sites"].append({"name": "b", "hosts": ["b.test", "c.test"], "origin": "o"})
    node.reload()
    origin.page("/a", b"hello", FRESH | {"Surrogate-Key": "greeting"})
    for host in HOSTS:
        wait_until(lambda: node.get("/a", host=host).committed, f"{host}/a to be stored")
    return node


def hits(node):
    return {h for h in HOSTS if node.get("/a", {"Cache-Control": "only-if-cached"}, host=h).hit}


def brimctl(*args, env=None, stdin=None):
    return subprocess.run([binary("BRIMCTL_BIN", "build/brimctl"), *args], text=True, timeout=60, input=stdin,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | (env or {}))


def done(r):
    assert r.returncode == 0 and r.stderr == "", r
    return r.stdout


# --- purge


def test_purge_by_urls(stored):
    out = done(stored.brimctl("purge", "http://a.test/a", "b.test/a"))
    assert re.fullmatch(r"purged 2 URLs \(number \d+\)\n", out)
    assert hits(stored) == {"c.test"}


@pytest.mark.parametrize("args, left, said", [
    (["--host", "b.test"], {"a.test", "c.test"}, "purged 1 host "),
    (["--site", "b"], {"a.test"}, "purged 1 site "),
    (["--prefix", "a.test/", "b.test/"], {"c.test"}, "purged 2 prefixes "),
    (["--tag", "greeting", "--of", "b"], {"a.test"}, "purged 1 tag "),
    (["--tag", "greeting"], set(), "purged 1 tag "),
    (["a.test/a", "--host", "c.test"], {"b.test"}, "purged 2 names "),
    (["--all"], set(), "purged everything "),
])
def test_purge_by_other_names(stored, args, left, said):
    assert done(stored.brimctl("purge", *args)).startswith(said)
    assert hits(stored) == left


def test_a_soft_purge_and_one_that_only_counts(stored):
    assert done(stored.brimctl("purge", "--dry-run", "--site", "b")).startswith("would name 2 stored objects, ")
    assert hits(stored) == set(HOSTS)
    assert "softly" in done(stored.brimctl("purge", "a.test/a", "--soft"))
    assert stored.object("/a")["variants"][0]["purged"] == "soft"


def test_purge_names_from_standard_input(stored):
    r = brimctl("-s", stored.admin_address, "purge", "-", stdin="a.test/a\n\n  http://b.test/a \r\n")
    assert done(r).startswith("purged 2 URLs ")
    assert hits(stored) == {"c.test"}
    assert done(brimctl("-s", stored.admin_address, "purge", "--host", "-", stdin="c.test")).startswith("purged 1 host ")
    assert done(brimctl("-s", stored.admin_address, "purge", "-", stdin="")) == "purged 0 URLs\n"


def test_more_names_than_a_call_takes(stored):
    names = "".join(f"a.test/{n}\n" for n in range(20000)) + "a.test/a\n"
    out = done(brimctl("-s", stored.admin_address, "purge", "-", stdin=names))
    m = re.fullmatch(r"purged 20001 URLs in 3 calls \(numbers (\d+) to (\d+)\)\n", out)
    assert m and int(m[2]) == int(m[1]) + 2
    assert hits(stored) == {"b.test", "c.test"}
    r = brimctl("-s", stored.admin_address, "purge", "-", stdin=names + "nobody.example/\n")
    assert r.returncode == 1 and "before that, 20000 were purged" in r.stderr and r.stdout == ""
    answers = done(brimctl("-s", stored.admin_address, "--json", "purge", "-", stdin=names)).splitlines()
    assert len(answers) == 3 and all(json.loads(a)["purge"] for a in answers)


def test_a_purge_without_an_answer_is_told_as_such(tmp_path):
    """As when the keeper dies: it may have been done."""
    path = str(tmp_path / "admin.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(2)

        def serve_nothing():
            for _ in range(2):
                with listener.accept()[0] as s:
                    while b"\r\n\r\n" not in s.recv(65536, socket.MSG_PEEK):
                        pass
                    s.recv(65536)
        thread = threading.Thread(target=serve_nothing)
        thread.start()
        purge = brimctl("-s", "unix:" + path, "purge", "--all")
        status = brimctl("-s", "unix:" + path, "status")
        thread.join()
    assert purge.returncode != 0 and "closed the connection" in purge.stderr and "may or may not be done" in purge.stderr
    assert status.returncode != 0 and "may or may not" not in status.stderr


def test_purge_refused(stored):
    r = stored.brimctl("purge", "--soft", "http://nobody.example/")
    assert r.returncode == 1 and "/urls/0" in r.stderr and r.stdout == ""
    r = stored.brimctl("purge", "--json", "http://nobody.example/")
    assert r.returncode == 1 and json.loads(r.stdout)["error"]["pointer"] == "/urls/0"
    assert hits(stored) == set(HOSTS)


# --- what is stored


def test_inspect(stored):
    out = done(stored.brimctl("inspect", "http://a.test/a"))
    assert "next request: hit" in out and "max-age" in out
    stored.purge("/a")
    out = done(stored.brimctl("inspect", "a.test/a"))
    assert "next request: miss" in out and ("purged" in out or "not stored" in out)  # reclaimed already
    assert json.loads(done(stored.brimctl("inspect", "--json", "a.test/a?b=%20&d=")))["url"] == "http://a.test/a?b=%20&d="
    assert stored.brimctl("inspect", "nobody.example").returncode == 1


def test_objects(stored):
    lines = done(stored.brimctl("objects")).splitlines()
    assert len(lines) == 3 and all(re.match(r"200  5 B  fresh for .*  http://[abc]\.test/a$", line) for line in lines)
    assert done(stored.brimctl("objects", "--site", "a", "--json")).count('"url":"http://a.test/a"') == 1
    assert len(done(stored.brimctl("objects", "--limit", "2")).splitlines()) == 2
    assert done(stored.brimctl("objects", "--prefix", "c.test/")).endswith("http://c.test/a\n")
    r = stored.brimctl("objects", "--site", "nobody")
    assert r.returncode == 1 and "?site: no such site" in r.stderr


def test_objects_of_many_pages(origin, node):
    for n in range(30):
        origin.page(f"/{n}", b"x", FRESH)
        node.get(f"/{n}")
    wait_until(lambda: node.status()["stores"][0]["objects"] == 30, "all to be committed")
    assert len(set(done(node.brimctl("objects")).splitlines())) == 30


# --- the node


def test_status_and_store(node):
    out = done(node.brimctl("status"))
    assert "worker 1: pid" in out and "store s: open" in out
    assert json.loads(done(node.brimctl("--json", "status")))["name"] == "brim"
    out = done(node.brimctl("store"))
    assert "store s: open" in out and "segments" in out
    assert json.loads(done(node.brimctl("store", "--json")))[0]["name"] == "s"


def test_top(stored):
    out = done(stored.brimctl("top", "--count", "1"))
    assert re.search(r"^site +requests/s", out, re.M) and re.search(r"^a {23} +\d", out, re.M)
    lines = done(stored.brimctl("top", "--count", "2", "--interval", "1", "--json")).splitlines()
    assert [sorted(json.loads(line)["sites"]) for line in lines] == [["a", "b"]] * 2


def test_drain_and_resume(node):
    assert done(node.brimctl("drain")).startswith("takes no connections")
    assert "draining" in done(node.brimctl("status"))
    assert done(node.brimctl("resume")) == "takes connections\n"
    assert json.loads(done(node.brimctl("resume", "--json")))["draining"] is False


def test_reload(node):
    assert done(node.brimctl("reload", "--dry-run")) == "ok: a reload would take it\n"
    assert done(node.brimctl("reload")) == "reloaded: generation 2\n"
    node.conf["workers"] = 7
    node.write_conf()
    for args in (["reload", "--dry-run"], ["reload"]):
        r = node.brimctl(*args)
        assert r.returncode == 1 and "/workers" in r.stderr and r.stdout == ""


def test_config(node):
    assert json.loads(done(node.brimctl("config", "show")))["sites"]
    assert done(node.brimctl("config", "check", node.config_path)).startswith("ok")
    assert done(node.brimctl("config", "diff", node.config_path)) == "the node runs what the file says\n"
    node.conf["sites"][0]["cache"] = {"default_ttl": "5s"}
    node.conf["workers"] = 7
    node.conf["sites"][0]["hosts"].append("more.test")
    node.write_conf()
    r = node.brimctl("config", "check", node.config_path)
    assert r.returncode == 1 and "/workers" in r.stderr
    r = node.brimctl("config", "diff", node.config_path)
    assert r.returncode == 1 and r.stderr == ""
    assert "/workers\n  - 2\n  + 7\n" in r.stdout and '/sites/0/hosts/2\n  + "more.test"\n' in r.stdout
    assert '/sites/0/cache\n  + {"default_ttl":"5s"}\n' in r.stdout
    found = json.loads(node.brimctl("--json", "config", "diff", node.config_path).stdout)
    assert {"pointer": "/workers", "running": 2, "file": 7} in found and len(found) == 3
    node.conf["origins"]["a/b~"] = node.conf["origins"]["o"]
    node.write_conf()
    assert "/origins/a~1b~0\n  + {" in node.brimctl("config", "diff", node.config_path).stdout
    assert node.brimctl("config", "check", "/nowhere/brim.json").returncode == 1


def test_config_keeps_secrets(origin, make_node, tmp_path, certs):
    pair = certs.issue(["a.test", "*.a.test"])
    rules = [{"match": {"path": "/*"}, "request_headers": {"set": {"Authorization": "Basic c2VjcmV0", "X-Odd": "plain"}}}]
    token = tmp_path / "t"
    token.write_text("0123456789abcdef-of-token")
    token.chmod(0o600)
    node = make_node(origin, start=False, site={"rules": rules, "tls": pair.conf})
    node.conf["admin"]["tokens"] = [{"name": "t", "file": str(token), "role": "read"}]
    node.start()
    with open(pair.key) as f:
        key = f.read().splitlines()[1]
    shown = node.brimctl("config", "show").stdout + node.admin("GET", "/v1/config").body.decode()
    assert "c2VjcmV0" not in shown and "(hidden)" in shown and "plain" in shown and str(token) in shown
    assert key not in shown and "x-" not in re.sub("x-odd", "", shown, flags=re.I) and "0123456789abcdef" not in shown
    assert done(node.brimctl("config", "diff", node.config_path)) == "the node runs what the file says\n"
    assert done(node.brimctl("config", "check", node.config_path)).startswith("ok")


# --- finding the node


def test_it_says_what_to_do(node, tmp_path):
    r = brimctl("-s", f"unix:{tmp_path}/none.sock", "status")
    assert r.returncode == 1 and "is the node running?" in r.stderr and r.stdout == ""
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(f"{tmp_path}/dead.sock")
    r = brimctl("status", env={"BRIM_ADMIN": f"unix:{tmp_path}/dead.sock"})
    assert r.returncode == 1 and "nobody listens" in r.stderr
    assert brimctl("status", env={"BRIM_ADMIN": node.admin_address}).returncode == 0
    r = brimctl("-s", f"127.0.0.1:{free_port()}", "status")
    assert r.returncode == 1 and "is the node running" in r.stderr
    for address in ("nonsense", "http://", "https://[::1", "127.0.0.1:", "http://a/path"):
        r = brimctl("-s", address, "status")
        assert r.returncode == 1 and "address" in r.stderr, address


@pytest.mark.parametrize("args", [
    [], ["nothing"], ["purge"], ["purge", "--soft"], ["inspect"], ["config"], ["config", "show", "x"], ["config", "other"],
    ["status", "x"], ["-s"], ["purge", "--al"], ["purge", "-", "-"], ["purge", "--tag", "x", "--of"], ["top", "--count", "0"],
    ["objects", "x"], ["objects", "--limit", "-1"], ["reload", "--dry"], ["drain", "x"], ["status", "--token-file"],
], ids=" ".join)
def test_bad_usage(args):
    r = brimctl(*args)
    assert r.returncode == 2 and r.stderr.startswith("brimctl: ") and r.stdout == ""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to be someone else")
def test_without_the_right(node):
    r = subprocess.run([binary("BRIMCTL_BIN", "build/brimctl"), "-s", node.admin_address, "status"], text=True,
                       stderr=subprocess.PIPE, timeout=20, user="daemon", group="daemon", extra_groups=[])
    assert r.returncode == 1 and "not allowed" in r.stderr and "group" in r.stderr


def with_tcp(origin, make_node, tmp_path, listen, **admin):
    token = tmp_path / "token"
    token.write_text(secrets.token_hex(20) + "\n")
    token.chmod(0o600)
    node = make_node(origin, start=False)
    node.port_of_admin = free_port()
    node.conf["admin"] |= {"listen": [node.admin_address, f"{listen}:{node.port_of_admin}"],
                           "tokens": [{"name": "t", "file": str(token), "role": "read"}]} | admin
    return node.start(), str(token)


def test_over_tcp_with_a_token(origin, make_node, tmp_path):
    node, token = with_tcp(origin, make_node, tmp_path, "127.0.0.1")
    address = f"127.0.0.1:{node.port_of_admin}"
    for at in (address, f"http://{address}/", f"http://localhost:{node.port_of_admin}"):
        assert brimctl("-s", at, "--token-file", token, "status").returncode == 0, at
    assert brimctl("status", env={"BRIM_ADMIN": address, "BRIM_TOKEN_FILE": token}).returncode == 0
    r = brimctl("-s", address, "status")
    assert r.returncode == 1 and "--token-file" in r.stderr
    r = brimctl("-s", address, "--token-file", token, "purge", "a.test/")
    assert r.returncode == 1 and "needs purge" in r.stderr
    r = brimctl("-s", address, "--token-file", f"{token}.not", "status")
    assert r.returncode == 1 and "can't read the token" in r.stderr
    with open(f"{token}.bad", "w") as f:
        f.write("two words")
    assert "does not hold a token" in brimctl("-s", address, "--token-file", f"{token}.bad", "status").stderr


def test_over_tls(origin, make_node, tmp_path, certs):
    node, token = with_tcp(origin, make_node, tmp_path, "0.0.0.0", hosts=["localhost"],
                           tls=certs.issue(["localhost", "127.0.0.1"]).conf)
    port = node.port_of_admin
    for host in ("localhost", "127.0.0.1"):
        r = brimctl("-s", f"https://{host}:{port}", "--ca-file", certs.root, "--token-file", token, "status")
        assert r.returncode == 0, r
    r = brimctl("-s", f"https://localhost:{port}", "--token-file", token, "status")
    assert r.returncode == 1 and "--ca-file" in r.stderr
    r = brimctl("-s", f"https://localhost:{port}", "--token-file", token, "--ca-file", "/dev/null", "status")
    assert r.returncode == 1 and "--ca-file" in r.stderr
    r = brimctl("-s", f"http://localhost:{port}", "--token-file", token, "status")
    assert r.returncode == 1 and "https://" in r.stderr


# --- help, completions, the manual


def commands_and_options():
    """What «brimctl -h» says there is: {command: its options}, and our own options."""
    text = done(brimctl("-h"))
    found = {}
    for name, rest in re.findall(r"^  ([a-z]+)((?: .*)?)$", text, re.M):
        if name != "brimctl":
            found.setdefault(name, set()).update(re.findall(r"--[a-z-]+", rest))
    found["purge"].add("--url")
    return found, set(re.findall(r"(?<![\w-])--[a-z-]+", re.search(r"^  brimctl (.*)$", text, re.M)[1]))


COMMANDS = {"purge", "status", "top", "inspect", "objects", "store", "config", "reload", "drain", "resume"}


def test_help_names_every_command():
    assert set(commands_and_options()[0]) == COMMANDS
    assert done(brimctl("--help")) == done(brimctl("-h"))


def documented(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def words_of_bash(text):
    """{command: options} of the lists in the file's «case $command»."""
    found = {name: set(re.findall(r"--[a-z-]+", words)) for name, words in
             re.findall(r"^\t([a-z]+)\) words=\"([^\"]*)\"", text, re.M)}
    names = re.search(r'^\t""\) words="([^"]*)"', text, re.M)[1].split()
    return {name: found.get(name, set()) for name in names}


def words_of_zsh(text):
    names = re.findall(r"^\t\t'([a-z]+):", text, re.M)
    found = {name: set(re.findall(r"'\*?(--[a-z-]+)", part)) for name, part in
             re.findall(r"^\t\t([a-z]+)\)\n(.*?);;", text, re.M | re.S)}
    return {name: found.get(name, set()) for name in names}


def words_of_fish(text):
    names = re.findall(r"-n \$none -a ([a-z]+)", text)
    found = {name: set() for name in names}
    for line in text.splitlines():
        m = re.match(r"complete -c brimctl -n (?:\$|'__fish_seen_subcommand_from )([a-z]+).* -l ([a-z-]+)", line)
        if m:
            found[m[1]].add(f"--{m[2]}")
    return found


@pytest.mark.parametrize("path, words_of", [("docs/completions/brimctl.bash", words_of_bash),
                                            ("docs/completions/_brimctl", words_of_zsh),
                                            ("docs/completions/brimctl.fish", words_of_fish)])
def test_completions_name_what_there_is(path, words_of):
    commands, own = commands_and_options()
    text = documented(path)
    assert words_of(text) == commands
    for option in own:
        assert option in text or f"-l {option[2:]} " in text, option
    for verb in ("show", "check", "diff"):
        assert verb in text


@pytest.mark.parametrize("line, expected", [
    ("brimctl st", {"status", "store"}), ("brimctl config ", {"show", "check", "diff"}), ("brimctl purge --s", {"--site", "--soft"}),
    ("brimctl -s unix:/x re", {"reload", "resume"}), ("brimctl reload --d", {"--dry-run"}), ("brimctl objects --l", {"--limit"})])
def test_bash_completes(line, expected):
    script = f"""
    source {ROOT}/docs/completions/brimctl.bash
    COMP_WORDS=({line} {'""' if line.endswith(" ") else ""}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
    _brimctl; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    r = subprocess.run(["bash", "-c", script], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20)
    assert r.stderr == "" and expected <= set(r.stdout.split()), r
    assert not line.rpartition(" ")[2] or set(r.stdout.split()) == expected


def rendered(path=None, text=None):
    """A manual page as people read it; any warning of the formatter is a fault."""
    r = subprocess.run(["groff", "-man", "-ww", "-Kutf8", "-Tutf8", "-P-c", *([os.path.join(ROOT, path)] if path else [])], input=text, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert r.returncode == 0 and r.stderr == "", r.stderr
    return re.sub(r".\x08", "", r.stdout).replace("‐\n", "-\n").replace("−", "-").replace("‐", "-")


def test_the_manual_of_brimctl_names_what_there_is():
    page = rendered("docs/man/brimctl.1")
    commands, own = commands_and_options()
    for word in [*commands, *own, *(o for options in commands.values() for o in options), "BRIM_ADMIN", "BRIM_TOKEN_FILE"]:
        assert word in page, word


def test_the_manual_of_brim_names_what_there_is():
    page = rendered("docs/man/brim.8")
    shown = done(subprocess.run([binary("BRIM_BIN", "build/brim-test"), "-h"], text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, timeout=20))
    for word in [*re.findall(r"(?<![\w-])--?[A-Za-z-]+", shown), "HUP", "TERM", "USR1"]:
        assert word in page, word


def test_the_manual_of_the_configuration_is_made_from_the_reference():
    r = subprocess.run([os.path.join(ROOT, "docs/man/from-configuration")], text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=60)
    page = re.sub(r"\s+", " ", rendered(text=done(r)))
    for key in re.findall(r"^\| `([\w.]+)` \|", documented("docs/configuration.md"), re.M):
        assert f" {key} " in page, key
    assert "`" not in page


def test_install(tmp_path):
    """What «make install» would put where, without doing it."""
    r = subprocess.run(["make", "-n", "install", f"DESTDIR={tmp_path}", "PREFIX=/usr"], cwd=ROOT, text=True, timeout=60,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"MAKEFLAGS": ""})
    for path in ("sbin/brim", "bin/brimctl", "share/man/man8/brim.8", "share/man/man5/brim.json.5", "share/man/man1/brimctl.1",
                 "share/bash-completion/completions/brimctl", "share/zsh/site-functions/_brimctl",
                 "share/fish/vendor_completions.d/brimctl.fish", "lib/modules-load.d/brim.conf"):
        assert f"{tmp_path}/usr/{path}" in r.stdout, path
