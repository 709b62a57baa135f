#!/usr/bin/env python3
"""A whole SAML round trip: a caller at Apache with mod_shib, sent to a SimpleSAMLphp identity provider, logging in there, and
arriving at Leasehold with a name. Everything runs as processes of our own, in a directory of our own, on free ports.

Started by scripts/shibboleth.sh, which installs what this needs.
"""

import html
import http.cookiejar
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SECRET = "only Apache and Leasehold know this"
PATIENCE_S = 30


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listening(port):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    sys.exit(f"no process listens on port {port}")


def certificate(directory, name):
    key, cert = directory / f"{name}.key", directory / f"{name}.crt"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", key, "-out", cert],
        check=True, capture_output=True)
    key.chmod(0o644)  # for this test alone, and gone with it
    return key, cert


def write_idp(directory, idp, sp_entity, acs):
    """SimpleSAMLphp: two users with passwords, and one service it knows."""
    config, metadata = directory / "config", directory / "metadata"
    for folder in (config, metadata, directory / "log", directory / "data", directory / "tmp"):
        folder.mkdir()
    certificate(directory, "idp")
    (config / "config.php").write_text(f"""<?php
$config = [
    'baseurlpath' => '{idp}/', 'certdir' => '{directory}/', 'loggingdir' => '{directory}/log/', 'datadir' => '{directory}/data/',
    'tempdir' => '{directory}/tmp', 'metadatadir' => '{metadata}', 'secretsalt' => 'salt of one test', 'timezone' => 'UTC',
    'auth.adminpassword' => 'nobody-logs-in-here', 'technicalcontact_name' => 'x', 'technicalcontact_email' => 'na@example.org',
    'logging.handler' => 'file', 'logging.level' => 4, 'enable.saml20-idp' => true, 'store.type' => 'phpsession',
    'session.cookie.secure' => false, 'session.phpsession.savepath' => '{directory}/data', 'session.duration' => 3600,
    'session.datastore.timeout' => 3600, 'session.state.timeout' => 3600, 'session.cookie.name' => 'IdpSession',
    'session.phpsession.cookiename' => 'IdpPhp', 'session.cookie.lifetime' => 0, 'module.enable' => ['exampleauth' => true, 'core' => true, 'saml' => true],
    'metadata.sources' => [['type' => 'flatfile', 'directory' => '{metadata}']], 'language.default' => 'en', 'language.available' => ['en'],
];
""")
    (config / "authsources.php").write_text("""<?php
$config = ['users' => ['exampleauth:UserPass',
    'alice:wonder' => ['uid' => ['alice'], 'isMemberOf' => ['staff', 'member']],
    'mallory:wonder' => ['uid' => ['mallory'], 'isMemberOf' => ['alum']],
]];
""")
    (metadata / "saml20-idp-hosted.php").write_text(f"""<?php
$metadata['{idp}/idp'] = ['host' => '__DEFAULT__', 'privatekey' => 'idp.key', 'certificate' => 'idp.crt', 'auth' => 'users'];
""")
    (metadata / "saml20-sp-remote.php").write_text(f"""<?php
$metadata['{sp_entity}'] = ['AssertionConsumerService' => '{acs}', 'simplesaml.nameidattribute' => 'uid',
    'attributes.NameFormat' => 'urn:oasis:names:tc:SAML:2.0:attrname-format:basic'];
""")


def write_sp(directory, idp, sp_entity):
    """Shibboleth: one provider it believes, two attributes it passes on."""
    key, cert = certificate(directory, "sp")
    lines = (directory / "idp.crt").read_text().splitlines()
    idp_cert = "".join(line for line in lines if not line.startswith("-----"))
    (directory / "idp.xml").write_text(f"""<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="{idp}/idp">
<IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">
<KeyDescriptor use="signing"><KeyInfo xmlns="http://www.w3.org/2000/09/xmldsig#"><X509Data><X509Certificate>{idp_cert}</X509Certificate></X509Data></KeyInfo></KeyDescriptor>
<SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="{idp}/saml2/idp/SSOService.php"/>
</IDPSSODescriptor></EntityDescriptor>
""")
    basic = "urn:oasis:names:tc:SAML:2.0:attrname-format:basic"
    (directory / "attribute-map.xml").write_text(f"""<Attributes xmlns="urn:mace:shibboleth:2.0:attribute-map">
<Attribute name="uid" nameFormat="{basic}" id="uid"/><Attribute name="isMemberOf" nameFormat="{basic}" id="isMemberOf"/>
</Attributes>
""")
    for name in ("shibd", "native"):
        (directory / f"{name}.logger").write_text(f"""log4j.rootCategory=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.fileName={directory}/{name}.log
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%p %c: %m%n
""")
    (directory / "shibboleth2.xml").write_text(f"""<SPConfig xmlns="urn:mace:shibboleth:3.0:native:sp:config" clockSkew="180">
<OutOfProcess logger="{directory}/shibd.logger"/><InProcess logger="{directory}/native.logger"/>
<UnixListener address="{directory}/shibd.sock"/>
<StorageService type="Memory" id="mem" cleanupInterval="900"/>
<SessionCache type="StorageService" StorageService="mem" cacheTimeout="3600" inprocTimeout="900" cleanupInterval="900"/>
<ReplayCache StorageService="mem"/>
<ApplicationDefaults entityID="{sp_entity}" REMOTE_USER="uid">
<Sessions lifetime="3600" timeout="3600" relayState="ss:mem" checkAddress="false" handlerSSL="false" cookieProps="http">
<SSO entityID="{idp}/idp">SAML2</SSO></Sessions>
<Errors/>
<MetadataProvider type="XML" validate="false" path="{directory}/idp.xml"/>
<AttributeExtractor type="XML" validate="false" reloadChanges="false" path="{directory}/attribute-map.xml"/>
<AttributeFilter type="XML" validate="false" path="/etc/shibboleth/attribute-policy.xml"/>
<CredentialResolver type="File" key="{key}" certificate="{cert}"/>
</ApplicationDefaults>
<SecurityPolicyProvider type="XML" validate="true" path="/etc/shibboleth/security-policy.xml"/>
<ProtocolProvider type="XML" validate="true" reloadChanges="false" path="/etc/shibboleth/protocols.xml"/>
</SPConfig>
""")


def write_apache(directory, port, leasehold):
    """As docs/sign-on.md has it."""
    modules = ["mpm_event", "authn_core", "authz_core", "authz_user", "headers", "proxy", "proxy_http", "shib"]
    names = "".join(f"LoadModule {'mod_shib' if name == 'shib' else name + '_module'} /usr/lib/apache2/modules/mod_{name}.so\n" for name in modules)
    (directory / "apache.conf").write_text(f"""{names}
ServerRoot "{directory}"
ServerName 127.0.0.1:{port}
UseCanonicalName On
PidFile "{directory}/apache.pid"
ErrorLog "{directory}/apache.log"
DefaultRuntimeDir "{directory}"
Listen 127.0.0.1:{port}
User www-data
Group www-data
ShibConfig {directory}/shibboleth2.xml
<Location "/">
    AuthType shibboleth
    ShibRequestSetting requireSession 1
    Require valid-user
    RequestHeader set X-Remote-User "expr=%{{REMOTE_USER}}"
    RequestHeader set X-Remote-Groups "expr=%{{reqenv:isMemberOf}}"
    RequestHeader set Leasehold-Proxy-Secret "{SECRET}"
</Location>
ProxyPass "/Shibboleth.sso" "!"
ProxyPass "/" "{leasehold}/"
""")


def write_leasehold(directory):
    (directory / "leasehold.toml").write_text(f"""
[auth.proxy]
preset = "shibboleth"
from = ["127.0.0.1"]
secret = "{SECRET}"

[[policy]]
groups = ["staff"]
actions = ["inspect", "acquire", "update-own"]
""")


class Browser:
    """Cookies, redirects, and forms that are posted as a browser would."""

    def __init__(self):
        jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))

    def open(self, url, form=None, headers=None):
        data = urllib.parse.urlencode(form).encode() if form else None
        request = urllib.request.Request(url, data=data, headers=headers or {})
        try:
            with self.opener.open(request, timeout=PATIENCE_S) as answer:
                return answer.status, answer.url, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.url, error.read().decode()

    def log_in(self, url, name):
        """Follows a page to the provider and back."""
        status, at, page = self.open(url)
        assert "password" in page, f"no login form but {status} at {at}: {page[:500]}"
        fields = dict(re.findall(r'<input type="hidden" name="(AuthState)" value="([^"]*)"', page))
        fields = {key: html.unescape(value) for key, value in fields.items()}
        status, at, page = self.open(at, {**fields, "username": name, "password": "wonder"})
        action = html.unescape(re.search(r'<form[^>]*action="([^"]*)"', page).group(1))
        hidden = {key: html.unescape(value) for key, value in re.findall(r'name="(SAMLResponse|RelayState)" value="([^"]*)"', page)}
        assert "SAMLResponse" in hidden, f"no assertion but {status} at {at}: {page[:500]}"
        return self.open(action, hidden)


def check(apache, leasehold):
    alice = Browser()
    status, at, text = alice.log_in(f"{apache}/v1/whoami", "alice")
    me = json.loads(text)
    assert status == 200 and at == f"{apache}/v1/whoami", (status, at, text)
    assert (me["name"], me["source"], me["groups"]) == ("alice", "proxy", ["staff", "member"]), me
    body = json.dumps({"resource": "telescope", "timeout": 60}).encode()
    request = urllib.request.Request(f"{apache}/v1/claims/", data=body)
    with alice.opener.open(request, timeout=PATIENCE_S) as answer:
        claim = json.load(answer)
    assert (claim["owner"], claim["status"]) == ("alice", "active"), claim
    # Headers that she sends along herself count for nothing.
    _, _, text = alice.open(f"{apache}/v1/whoami", headers={"X-Remote-User": "root", "X-Remote-Groups": "operators"})
    assert json.loads(text)["name"] == "alice", text

    mallory = Browser()
    status, _, text = mallory.log_in(f"{apache}/v1/claims/", "mallory")
    assert status == 403 and "mallory needs the action" in text, (status, text)
    # Past Apache, and without a session.
    status, _, text = Browser().open(f"{leasehold}/v1/whoami", headers={"X-Remote-User": "alice", "X-Remote-Groups": "staff"})
    assert status == 401, (status, text)
    _, at, page = Browser().open(f"{apache}/v1/claims/")
    assert "password" in page and not at.startswith(apache), "sent to log in"


def main():
    binary = os.environ.get("LEASEHOLD_BINARY", ROOT / "target/debug/leasehold")
    children = []

    def start(args, **more):
        children.append(subprocess.Popen(args, stdin=subprocess.DEVNULL, **more))

    with tempfile.TemporaryDirectory(prefix="leasehold-shibboleth-") as name:
        directory = pathlib.Path(name)
        directory.chmod(0o755)
        ports = {who: free_port() for who in ("idp", "apache", "leasehold")}
        idp, apache, leasehold = (f"http://127.0.0.1:{ports[who]}" for who in ("idp", "apache", "leasehold"))
        sp_entity = f"{apache}/shibboleth"
        write_idp(directory, idp, sp_entity, f"{apache}/Shibboleth.sso/SAML2/POST")
        write_sp(directory, idp, sp_entity)
        write_apache(directory, ports["apache"], leasehold)
        write_leasehold(directory)
        log = open(directory / "processes.log", "wb")
        quiet = {"stdout": log, "stderr": log}
        try:
            start([binary, "serve", "--memory", "--listen", f"127.0.0.1:{ports['leasehold']}", "--config", directory / "leasehold.toml"], **quiet)
            environment = {**os.environ, "SIMPLESAMLPHP_CONFIG_DIR": str(directory / "config")}
            start(["php", "-S", f"127.0.0.1:{ports['idp']}", "-t", "/usr/share/simplesamlphp/www"], env=environment, **quiet)
            start(["/usr/sbin/shibd", "-F", "-f", "-c", directory / "shibboleth2.xml", "-p", directory / "shibd.pid"], **quiet)
            deadline = time.monotonic() + PATIENCE_S
            while not (directory / "shibd.sock").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            os.chmod(directory / "shibd.sock", 0o777)
            start(["/usr/sbin/apache2", "-D", "FOREGROUND", "-f", directory / "apache.conf"], **quiet)
            for port in ports.values():
                listening(port)
            check(apache, leasehold)
            print("shibboleth: a SAML round trip through mod_shib and SimpleSAMLphp, and what must not get through does not")
        except BaseException:
            log.flush()
            for each in ("processes.log", "shibd.log", "native.log", "apache.log", "log/simplesamlphp.log"):
                path = directory / each
                if path.exists():
                    print(f"== the end of {each}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-15:]), file=sys.stderr)
            raise
        finally:
            for child in reversed(children):
                child.send_signal(signal.SIGTERM)
            for child in children:
                try:
                    child.wait(10)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()


main()
