//! Includes the studies that ship with bakeoff, so that `bakeoff run quickstart` needs no file.
//!
//! Each is a file in `studies/`, to be copied and changed.

/// Returns name and text of each study, in listing order.
pub fn shipped() -> &'static [(&'static str, &'static str)] {
    &[
        ("quickstart", include_str!("../../../../studies/quickstart.yaml")),
        ("demo", include_str!("../../../../studies/demo.yaml")),
        ("staleness", include_str!("../../../../studies/staleness.yaml")),
        ("kv-stores", include_str!("../../../../studies/kv-stores.yaml")),
        ("kv-failover", include_str!("../../../../studies/kv-failover.yaml")),
        ("kv-partitions", include_str!("../../../../studies/kv-partitions.yaml")),
        ("kv-watches", include_str!("../../../../studies/kv-watches.yaml")),
        ("kv-watches-failover", include_str!("../../../../studies/kv-watches-failover.yaml")),
        ("staircase", include_str!("../../../../studies/staircase.yaml")),
        ("durability", include_str!("../../../../studies/durability.yaml")),
        ("vault-backends", include_str!("../../../../studies/vault-backends.yaml")),
        ("vault-failover", include_str!("../../../../studies/vault-failover.yaml")),
        ("kv-leases", include_str!("../../../../studies/kv-leases.yaml")),
        ("kv-locks", include_str!("../../../../studies/kv-locks.yaml")),
        ("failover-leases", include_str!("../../../../studies/failover-leases.yaml")),
        (
            "access-gateway-failover",
            include_str!("../../../../studies/access-gateway-failover.yaml"),
        ),
        ("ingress-failover", include_str!("../../../../studies/ingress-failover.yaml")),
        ("openbao-read-scaling", include_str!("../../../../studies/openbao-read-scaling.yaml")),
        ("proxies", include_str!("../../../../studies/proxies.yaml")),
        ("ingress", include_str!("../../../../studies/ingress.yaml")),
        ("access-gateway", include_str!("../../../../studies/access-gateway.yaml")),
        ("access-gateway-module", include_str!("../../../../studies/access-gateway-module.yaml")),
    ]
}
