//! Records the addresses that clients connected to, and reports names with several addresses.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Measurement;

/// Describes an address that clients connected to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsedAddress {
    /// Address, as `10.0.0.7:80` or `unix:/run/app.sock`.
    pub address: String,
    /// Name that resolved to it, as `api.example:80`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Time at which it replaced an address that the name had lost, in seconds since measuring began; `None` for
    /// initial addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<f64>,
}

impl Measurement {
    /// Adds new addresses. A replacement is listed next to the initial use of the same address.
    pub fn use_addresses(&mut self, addresses: impl IntoIterator<Item = UsedAddress>) {
        for used in addresses {
            let is_it = |known: &UsedAddress| {
                let is_later = [known, &used].map(|one| one.since.is_some());
                (&known.name, &known.address) == (&used.name, &used.address)
                    && is_later[0] == is_later[1]
            };
            if !self.addresses.iter().any(is_it) {
                self.addresses.push(used);
            }
        }
    }

    /// Lists the addresses of each name that has several.
    pub(super) fn notes_on_names(&self) -> impl Iterator<Item = String> {
        let mut names: BTreeMap<&str, Vec<&UsedAddress>> = BTreeMap::new();
        for used in &self.addresses {
            names.entry(used.name.as_deref().unwrap_or_default()).or_default().push(used);
        }
        names.retain(|name, addresses| !name.is_empty() && addresses.len() > 1);
        names.into_iter().map(|(name, addresses)| {
            let text = |used: &&UsedAddress| match used.since {
                None => used.address.clone(),
                Some(since) => format!("from {since:.2} s on {}", used.address),
            };
            let addresses: Vec<String> = addresses.iter().map(text).collect();
            format!("Addresses of `{name}`: {}", addresses.join(", "))
        })
    }

    /// Lists the addresses that replaced lost ones during the load.
    pub fn moved_names(&self) -> impl Iterator<Item = String> {
        let moved = self.addresses.iter().filter_map(|used| Some((used, used.since?)));
        moved.map(|(UsedAddress { address, name, .. }, since)| {
            let name = name.as_deref().unwrap_or_default();
            format!("`{name}` led to {address} from {since:.2} s on")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_several_addresses_list_later_ones_too() {
        let used = |address: &str, name: Option<&str>, since| UsedAddress {
            address: address.to_owned(),
            name: name.map(str::to_owned),
            since,
        };
        let mut measured = Measurement::default();
        let (local, api) = (Some("localhost:80"), Some("api:80"));
        measured.use_addresses([used("127.0.0.1:80", local, None), used("unix:/s", None, None)]);
        measured.use_addresses([used("10.0.0.1:80", api, None), used("127.0.0.1:80", local, None)]);
        assert_eq!(measured.notes_on_the_network(), [""; 0]);
        let later = Measurement {
            addresses: vec![
                used("[::1]:80", local, None),
                used("10.0.0.2:80", api, Some(3.204)),
                used("10.0.0.1:80", api, Some(5.0)),
                used("10.0.0.1:80", api, Some(5.01)),
            ],
            ..Measurement::default()
        };
        measured.append(&later);
        let expected = [
            "Addresses of `api:80`: 10.0.0.1:80, from 3.20 s on 10.0.0.2:80, from 5.00 s on 10.0.0.1:80",
            "Addresses of `localhost:80`: 127.0.0.1:80, [::1]:80",
        ];
        assert_eq!(measured.notes_on_the_network(), expected);
        let moved: Vec<String> = measured.moved_names().collect();
        assert_eq!(moved[0], "`api:80` led to 10.0.0.2:80 from 3.20 s on");
        assert_eq!(moved.len(), 2);
    }
}
