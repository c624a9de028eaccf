//! What the machine runs on, from the kernel's power supplies.

use std::fs;
use std::path::Path;

/// Where the kernel shows them.
pub(crate) const SUPPLIES: &str = "/sys/class/power_supply";
/// Longest file that is read there.
const LONGEST: usize = 256;

/// What the machine runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Supply {
    /// It is fed from outside.
    pub external: bool,
    /// Charge of its batteries in percent; `None` without any.
    pub charge: Option<u8>,
}

/// Looks at the power supplies below `root`. A machine that shows none, or none but what feeds it from
/// outside, is fed from outside. Batteries of mice and the like do not count.
pub(crate) fn look(root: &Path) -> Supply {
    let mut fed = None;
    let mut charges = Vec::new();
    let mut discharging = None;
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let read = |name: &str| read_word(&entry.path().join(name));
        if read("scope").as_deref() == Some("Device") {
            continue;
        }
        match read("type").as_deref() {
            Some("Battery") => {
                if let Some(charge) = read("capacity").and_then(|text| text.parse::<u8>().ok()) {
                    charges.push(u32::from(charge.min(100)));
                }
                let is_discharging = read("status").as_deref() == Some("Discharging");
                discharging = Some(discharging.unwrap_or(false) | is_discharging);
            }
            Some("Mains" | "USB" | "Wireless") => {
                let online = read("online").is_some_and(|text| text != "0");
                fed = Some(fed.unwrap_or(false) | online);
            }
            // A UPS feeds it as long as it lasts; what has no kind says nothing.
            Some(_) | None => {}
        }
    }
    let batteries = u32::try_from(charges.len()).unwrap_or(u32::MAX);
    let charge = charges.iter().sum::<u32>().checked_div(batteries);
    Supply {
        external: match (fed, discharging) {
            // Some chargers are shown as offline though the battery is being charged.
            (Some(fed), Some(discharging)) => fed || !discharging,
            (Some(_), None) | (None, None) => true,
            (None, Some(discharging)) => !discharging,
        },
        charge: charge.and_then(|charge| u8::try_from(charge).ok()),
    }
}

fn read_word(path: &Path) -> Option<String> {
    let text = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(text.get(..LONGEST).unwrap_or(&text)).into_owned();
    Some(text.trim().to_owned()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree as the kernel shows it: supplies with their files.
    fn tree(supplies: &[(&str, &[(&str, &str)])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, files) in supplies {
            let folder = root.path().join(name);
            fs::create_dir(&folder).unwrap();
            for (file, text) in *files {
                fs::write(folder.join(file), format!("{text}\n")).unwrap();
            }
        }
        root
    }

    const LAPTOP: &[(&str, &str)] = &[
        ("type", "Battery"),
        ("status", "Discharging"),
        ("capacity", "57"),
    ];

    #[test]
    fn a_machine_without_batteries_is_fed_from_outside() {
        let desktop = Supply {
            external: true,
            charge: None,
        };
        assert_eq!(look(tree(&[]).path()), desktop);
        assert_eq!(look(Path::new("/nowhere")), desktop);
        let mouse: &[(&str, &str)] = &[
            ("type", "Battery"),
            ("scope", "Device"),
            ("status", "Discharging"),
            ("capacity", "3"),
        ];
        assert_eq!(look(tree(&[("hidpp_battery_0", mouse)]).path()), desktop);
    }

    #[test]
    fn a_charger_that_is_online_feeds_a_laptop() {
        let (off, on) = (
            &[("type", "Mains"), ("online", "0")],
            &[("type", "USB"), ("online", "1")],
        );
        let on_battery = look(tree(&[("AC", off), ("BAT0", LAPTOP)]).path());
        assert_eq!(on_battery.charge, Some(57));
        assert!(!on_battery.external);
        assert!(look(tree(&[("AC", off), ("ucsi", on), ("BAT0", LAPTOP)]).path()).external);
    }

    #[test]
    fn without_a_charger_that_is_shown_the_battery_says_it() {
        assert!(!look(tree(&[("BAT0", LAPTOP)]).path()).external);
        let full: &[(&str, &str)] = &[("type", "Battery"), ("status", "Full"), ("capacity", "100")];
        let found = look(tree(&[("BAT0", full)]).path());
        assert!(found.external && found.charge == Some(100));
    }

    #[test]
    fn two_batteries_count_together_and_nonsense_counts_for_nothing() {
        let other: &[(&str, &str)] = &[
            ("type", "Battery"),
            ("status", "Unknown"),
            ("capacity", "43"),
        ];
        let odd: &[(&str, &str)] = &[("type", "Battery"), ("status", ""), ("capacity", "many")];
        let none: &[(&str, &str)] = &[("online", "1")];
        let found =
            look(tree(&[("BAT0", LAPTOP), ("BAT1", other), ("x", odd), ("y", none)]).path());
        assert_eq!(found.charge, Some(50));
        assert!(!found.external, "one battery is being emptied");
    }
}
