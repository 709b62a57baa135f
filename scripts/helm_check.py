#!/usr/bin/env python3
"""What schemas do not say about the renderings of the chart: flags that the server has, ports and names that lead somewhere, files
that are mounted. Called by scripts/helm.sh."""

import re
import sys
from pathlib import Path

import yaml


def flags_of(keys):
    names = re.findall(r'\bname: "([a-z_]+)"', keys)
    return {name.replace("_", "-") for name in names} | {"config"}


def check(path, flags):
    resources = [resource for resource in yaml.safe_load_all(path.read_text()) if resource]
    by_kind = {}
    for resource in resources:
        by_kind.setdefault(resource["kind"], []).append(resource)
    (nodes,) = by_kind["StatefulSet"]
    (container,) = nodes["spec"]["template"]["spec"]["containers"]
    labels = nodes["spec"]["template"]["metadata"]["labels"]
    ports = {port["name"] for port in container["ports"]}
    services = {service["metadata"]["name"]: service for service in by_kind["Service"]}

    assert nodes["spec"]["serviceName"] in services, f"{path}: no service {nodes['spec']['serviceName']}"
    for service in services.values():
        assert service["spec"]["selector"].items() <= labels.items(), f"{path}: a service selects no node"
        for port in service["spec"]["ports"]:
            assert port["targetPort"] in ports, f"{path}: no port {port['targetPort']}"
    (budget,) = by_kind["PodDisruptionBudget"]
    assert budget["spec"]["maxUnavailable"] == 1 and budget["spec"]["selector"]["matchLabels"].items() <= labels.items()

    arguments = dict(argument.lstrip("-").partition("=")[::2] for argument in container["args"][1:])
    unknown = arguments.keys() - flags
    assert not unknown, f"{path}: the server has no flags {unknown}"
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    files = re.findall(r"/etc/[a-z-]+/", " ".join(container["args"]))
    for file in files:
        assert file.rstrip("/") in mounts, f"{path}: nothing is mounted at {file}"
    volumes = {volume["name"] for volume in nodes["spec"]["template"]["spec"]["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in nodes["spec"].get("volumeClaimTemplates", [])}
    assert {mount["name"] for mount in container["volumeMounts"]} <= volumes

    if "store" in arguments:
        peers = nodes["spec"]["serviceName"]
        assert arguments["advertise"] == f"$(POD_NAME).{peers}.leasehold.svc:8081"
        assert services[peers]["spec"]["clusterIP"] == "None" and services[peers]["spec"]["publishNotReadyAddresses"]
        assert "data" not in arguments and "volumeClaimTemplates" not in nodes["spec"]
    else:
        assert nodes["spec"]["replicas"] == 1 and arguments["data"].startswith("/data/")


def main():
    flags = flags_of(Path(sys.argv[2]).read_text())
    renderings = sorted(Path(sys.argv[1]).glob("*.yaml"))
    renderings = [path for path in renderings if path.stem != "wrong"]
    assert len(renderings) == 4, renderings
    for path in renderings:
        check(path, flags)


main()
