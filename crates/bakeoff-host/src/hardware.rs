//! Reads hardware and kernel properties that affect figures, from sysfs and procfs.
//!
//! The files are described in the kernel's `Documentation/ABI` (`sysfs-devices-system-cpu`, `sysfs-devices-node`,
//! `stable/sysfs-block`) and `admin-guide/hw-vuln`. A property without a file is unknown.
//!
//! Not here: memory and number of CPUs (`bakeoff`'s `environment`), disk speed (`disk`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use bakeoff_core::record::Hardware;

/// Describes this machine and the disk that holds `data`.
pub fn describe(data: &Path) -> Hardware {
    let device = rustix::fs::stat(data).ok().map(|of| of.st_dev);
    let device = device.map(|of| (rustix::fs::major(of), rustix::fs::minor(of)));
    let environment = |name: &str| std::env::var_os(name).is_some();
    let mut found = described(Path::new("/"), device);
    if environment("KUBERNETES_SERVICE_HOST") {
        found.container = Some("kubernetes".to_owned());
    }
    found
}

/// Describes the machine whose files are below `root`. `device`: number of the disk.
fn described(root: &Path, device: Option<(u32, u32)>) -> Hardware {
    let sys = root.join("sys/devices/system");
    let disk = device.and_then(|device| disk(root, device));
    let of_disk = |file: &str| disk.as_ref().and_then(|disk| word(&disk.join(file)));
    Hardware {
        governor: governors(&sys.join("cpu")),
        smt: word(&sys.join("cpu/smt/active")).map(|active| active == "1"),
        numa_nodes: numbered(&sys.join("node"), "node"),
        mitigations: mitigations(&sys.join("cpu/vulnerabilities")),
        hypervisor: hypervisor(root),
        container: Some(container(root)),
        disk_model: of_disk("device/model"),
        disk_write_cache: of_disk("queue/write_cache"),
        clock_source: word(&sys.join("clocksource/clocksource0/current_clocksource")),
        cgroup_version: cgroup_version(&root.join("sys/fs/cgroup")),
    }
}

/// Returns a file's text, trimmed; `None` if it is missing or empty.
fn word(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn names(folder: &Path) -> Vec<String> {
    let items = fs::read_dir(folder).into_iter().flatten().flatten();
    items.map(|item| item.file_name().to_string_lossy().into_owned()).collect()
}

/// Returns true if a name is this word and a number: `cpu12`.
fn is_numbered(name: &str, word: &str) -> bool {
    name.strip_prefix(word)
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Counts the entries named with this word and a number.
fn numbered(folder: &Path, word: &str) -> Option<u32> {
    let count = names(folder).iter().filter(|name| is_numbered(name, word)).count();
    u32::try_from(count).ok().filter(|&count| count > 0)
}

fn governors(cpus: &Path) -> Option<String> {
    let all = names(cpus).into_iter().filter(|name| is_numbered(name, "cpu"));
    let governors: BTreeSet<String> =
        all.filter_map(|name| word(&cpus.join(name).join("cpufreq/scaling_governor"))).collect();
    let governors: Vec<String> = governors.into_iter().collect();
    (!governors.is_empty()).then(|| governors.join(", "))
}

/// Returns the vulnerabilities of this processor, each with the kernel's mitigation.
fn mitigations(folder: &Path) -> BTreeMap<String, String> {
    let all = names(folder).into_iter().filter_map(|name| {
        let state = word(&folder.join(&name))?;
        Some((name, state))
    });
    all.filter(|(_, state)| state != "Not affected").collect()
}

/// Returns the hypervisor's name from Xen or the firmware, or `yes` if only a CPU flag reveals one.
fn hypervisor(root: &Path) -> Option<String> {
    let flags = fs::read_to_string(root.join("proc/cpuinfo")).ok()?;
    let flags =
        flags.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    if !flags?.split_whitespace().any(|flag| flag == "hypervisor") {
        return Some("none".to_owned());
    }
    let firmware = ["sys_vendor", "product_name"]
        .map(|name| word(&root.join("sys/class/dmi/id").join(name)).unwrap_or_default())
        .join(" ");
    let firmware = Some(firmware.trim().to_owned()).filter(|text| !text.is_empty());
    Some(word(&root.join("sys/hypervisor/type")).or(firmware).unwrap_or_else(|| "yes".to_owned()))
}

fn container(root: &Path) -> String {
    let marks = [(".dockerenv", "docker"), ("run/.containerenv", "podman")];
    let marked = marks.iter().find(|(file, _)| root.join(file).exists()).map(|(_, name)| *name);
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let known = ["kubepods", "docker", "libpod", "lxc"];
    let grouped = known.into_iter().find(|name| groups.contains(name));
    marked.or(grouped).unwrap_or("none").to_owned()
}

fn cgroup_version(mounted: &Path) -> Option<u32> {
    match (mounted.join("cgroup.controllers").exists(), names(mounted).is_empty()) {
        (true, _) => Some(2),
        (false, false) => Some(1),
        (false, true) => None,
    }
}

/// Returns the sysfs folder of a device's disk; for a partition, that of the whole disk.
fn disk(root: &Path, (major, minor): (u32, u32)) -> Option<PathBuf> {
    let device = root.join(format!("sys/dev/block/{major}:{minor}")).canonicalize().ok()?;
    let whole = if device.join("partition").exists() { device.parent()? } else { &device };
    Some(whole.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a machine from these files and their contents.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn each_property_is_read_from_its_file() {
        let cpu = "sys/devices/system/cpu";
        let root = machine(&[
            (&format!("{cpu}/cpu0/cpufreq/scaling_governor"), "performance\n"),
            (&format!("{cpu}/cpu1/cpufreq/scaling_governor"), "powersave\n"),
            (&format!("{cpu}/cpufreq/policy0/scaling_governor"), "other\n"),
            (&format!("{cpu}/smt/active"), "1\n"),
            (&format!("{cpu}/vulnerabilities/meltdown"), "Not affected\n"),
            (&format!("{cpu}/vulnerabilities/spectre_v2"), "Mitigation: IBRS\n"),
            ("sys/devices/system/node/node0/cpulist", "0"),
            ("sys/devices/system/node/node1/cpulist", "1"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu"),
            ("proc/cpuinfo", "flags\t\t: fpu hypervisor sse\n"),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            ("sys/class/dmi/id/product_name", "Standard PC\n"),
            ("proc/self/cgroup", "0::/kubepods/pod1\n"),
            ("sys/devices/pci/nvme0n1/queue/write_cache", "write back\n"),
            ("sys/devices/pci/nvme0n1/device/model", "A fast disk  \n"),
            ("sys/devices/pci/nvme0n1/nvme0n1p1/partition", "1\n"),
            ("sys/dev/block/readme", ""),
        ]);
        let link = root.path().join("sys/dev/block/259:1");
        std::os::unix::fs::symlink("../../devices/pci/nvme0n1/nvme0n1p1", link).unwrap();
        let text = |text: &str| Some(text.to_owned());
        let expected = Hardware {
            governor: text("performance, powersave"),
            smt: Some(true),
            numa_nodes: Some(2),
            mitigations: [("spectre_v2".to_owned(), "Mitigation: IBRS".to_owned())].into(),
            hypervisor: text("QEMU Standard PC"),
            container: text("kubepods"),
            disk_model: text("A fast disk"),
            disk_write_cache: text("write back"),
            clock_source: text("tsc"),
            cgroup_version: Some(2),
        };
        assert_eq!(described(root.path(), Some((259, 1))), expected);
    }

    #[test]
    fn missing_files_leave_properties_unknown() {
        let root = machine(&[("proc/cpuinfo", "flags : fpu\n"), (".dockerenv", "")]);
        let text = |text: &str| Some(text.to_owned());
        let expected =
            Hardware { hypervisor: text("none"), container: text("docker"), ..Hardware::default() };
        assert_eq!(described(root.path(), Some((0, 30))), expected);
    }

    #[test]
    fn describes_this_machine() {
        let found = describe(Path::new("/tmp"));
        assert!(found.clock_source.is_some() && found.container.is_some(), "{found:?}");
    }
}
