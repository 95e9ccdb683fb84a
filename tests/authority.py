"""A certificate authority for servers and clients of the tests, made with the openssl of this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

HOW = "apt-get install openssl, or put openssl into PATH"


class Authority:
    """Its files are in a folder that the caller removes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        # Python 3.13 and newer require the key usage in the certificate of an authority.
        extensions = ("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign")
        self.ca, self._key = self._made("authority", *(word for one in extensions for word in ("-addext", one)))

    def certificate(self, name: str, host: str = "") -> tuple[str, str]:
        """Returns the files of a certificate and of its key; that of a server is for one host, such as IP:127.0.0.1."""
        ours = ("-CA", self.ca, "-CAkey", self._key, "-addext", "basicConstraints=CA:FALSE")
        return self._made(name, *ours, *(("-addext", f"subjectAltName={host}") if host else ()))

    def _made(self, name: str, *options: str) -> tuple[str, str]:
        cert, key = str(self._folder / f"{name}.pem"), str(self._folder / f"{name}.key")
        self.openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", key, "-out", cert, *options,
        )  # fmt: skip
        return cert, key

    @staticmethod
    def openssl(*words: str) -> None:
        if (program := shutil.which("openssl")) is None:
            raise RuntimeError(f"the tests need certificates, and there is no openssl on this machine: {HOW}")
        made = subprocess.run([program, *words], capture_output=True, text=True, timeout=30)
        if made.returncode:
            raise RuntimeError(f"openssl {words[0]} failed: {made.stderr}")
