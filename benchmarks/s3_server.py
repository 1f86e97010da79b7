# SPDX-License-Identifier: Apache-2.0
"""A real S3 server on this machine, and a network that makes it seem far away, for benchmarks."""
import datetime, hashlib, hmac, os, re, subprocess, sys, urllib.error, urllib.parse, urllib.request

from measure import BUILD

SERVERS = f"{os.path.dirname(os.path.abspath(__file__))}/../tests/support/s3/servers"


class Server:
    """One that tests/support/s3/servers knows. Ends with `stop`."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        out = subprocess.run([SERVERS, "start", folder, name], stdout=subprocess.PIPE, text=True)
        if out.returncode != 0: sys.exit(f"{sys.argv[0]}: {name} does not start")
        said = dict(pair.split("=", 1) for pair in out.stdout.split())
        begin = f"CAIRN_S3_{name.upper()}_"
        self.endpoint = said[begin + "ENDPOINT"]
        self.key, self.secret = said[begin + "KEY"], said[begin + "SECRET"]

    def stop(self): subprocess.run([SERVERS, "stop", self.folder, self.name], check=True)

    def port(self): return int(self.endpoint.rpartition(":")[2])

    def variables(self, endpoint=None):
        """What names it, or another way to it, to a program."""
        return {"AWS_ENDPOINT_URL": endpoint or self.endpoint, "AWS_ACCESS_KEY_ID": self.key,
                "AWS_SECRET_ACCESS_KEY": self.secret, "AWS_REGION": "us-east-1",
                "AWS_EC2_METADATA_DISABLED": "true"}

    def request(self, method, path, query=()):
        """@return the body of the answer"""
        host = self.endpoint.removeprefix("http://")
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        scope = f"{now[:8]}/us-east-1/s3/aws4_request"
        path = urllib.parse.quote(path, safe="/-_.~")
        query = "&".join(f"{urllib.parse.quote(n, safe='')}={urllib.parse.quote(v, safe='')}"
                         for n, v in sorted(query))
        nothing = hashlib.sha256(b"").hexdigest()
        names = "host;x-amz-content-sha256;x-amz-date"
        asked = (f"{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{nothing}\n"
                 f"x-amz-date:{now}\n\n{names}\n{nothing}")
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}"
        key = f"AWS4{self.secret}".encode()
        for word in scope.split("/"): key = hmac.new(key, word.encode(), "sha256").digest()
        signature = hmac.new(key, text.encode(), "sha256").hexdigest()
        r = urllib.request.Request(f"{self.endpoint}{path}" + (f"?{query}" if query else ""),
                                   method=method, headers={
            "x-amz-date": now, "x-amz-content-sha256": nothing,
            "Authorization": f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, "
                             f"SignedHeaders={names}, Signature={signature}"})
        with urllib.request.urlopen(r) as answer: return answer.read().decode()

    def make_bucket(self, bucket): self.request("PUT", f"/{bucket}")

    def keys(self, bucket, prefix=""):
        """Key -> size, of at most 1000 objects."""
        said = self.request("GET", f"/{bucket}", [("list-type", "2"), ("prefix", prefix)])
        return {urllib.parse.unquote(k): int(n) for k, n in
                re.findall(r"<Key>(.*?)</Key>.*?<Size>(\d+)</Size>", said, re.DOTALL)}

    def uploads(self, bucket, prefix=""):
        """Keys of unfinished uploads, with their ids."""
        said = self.request("GET", f"/{bucket}", [("uploads", ""), ("prefix", prefix)])
        return re.findall(r"<Key>(.*?)</Key>.*?<UploadId>(.*?)</UploadId>", said, re.DOTALL)

    def clear(self, bucket, prefix=""):
        """Removes what begins so, and gives its memory back."""
        for key in self.keys(bucket, prefix): self.request("DELETE", f"/{bucket}/{key}")
        for key, upload in self.uploads(bucket, prefix):
            self.request("DELETE", f"/{bucket}/{key}", [("uploadId", upload)])
        subprocess.run([SERVERS, "collect", self.folder, self.name], check=True)


class Network:
    """`slow_proxy` before a server."""

    def __init__(self, server, *options):
        program = f"{BUILD}/benchmarks/slow_proxy"
        if not os.path.exists(program):
            sys.exit(f"{sys.argv[0]}: {program} is not built: meson compile -C {BUILD} slow_proxy")
        self.process = subprocess.Popen([program, str(server.port()), *options], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.endpoint = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"

    def stop(self):
        """@return what has passed, in words"""
        self.process.stdin.close()
        return self.process.stdout.read().strip()
