//! A folder such as `/sys/class/net/eth0/ecn`, in which mlx5 shows what DCQCN of a port is set to.
//!
//! ```text
//!   ecn/roce_rp/rpg_ai_rate ...      the reaction point: settings, each a number
//!      /roce_rp/enable/0 ... 7       whether it is on for a priority
//!      /roce_np/cnp_dscp ...         the notification point: the same
//!      /roce_np/enable/0 ... 7
//! ```
//!
//! Files may also lie side by side. Each is read, told of as one that is not modelled, or refused; names that begin
//! with a dot are nobody's.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use rdma::nearest;

use super::parameters::{PARAMETERS, Theirs};
use super::settings::Settings;

/// A folder of settings, whose files are named from it on.
pub trait Folder {
    /// The names in a folder of it, of which `""` is itself; nothing if that is not there.
    ///
    /// # Errors
    /// Why it cannot be listed, in a few words.
    fn names(&self, folder: &str) -> Result<Option<Vec<String>>, String>;

    /// The text of a file.
    ///
    /// # Errors
    /// Why it cannot be read, in a few words.
    fn read(&self, file: &str) -> Result<String, String>;
}

/// Why a file of a folder is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FolderError {
    /// The file; none if it is the folder.
    pub file: Option<String>,
    /// What is wrong with it.
    pub problem: String,
    /// What would be right.
    pub hint: String,
}

/// What is to be known of a folder that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FolderNote {
    /// The NIC whose folder it is does something else.
    pub is_warning: bool,
    /// What it is.
    pub text: String,
}

/// Where files lie.
const FOLDERS: [&str; 3] = ["", "roce_rp", "roce_np"];

/// The folder, in those, of a file for each priority.
const ENABLE: &str = "enable";

/// What mlx5 has beside settings, and why it has no effect.
const NOT_MODELLED: [(&str, &str); 1] = [("cnp_802p_prio", "CNPs have the priority of their DSCP")];

const WHICH: &str = "name the folder that holds roce_rp and roce_np: /sys/class/net/eth0/ecn";

/// A file, from the folder on.
fn path(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.into() } else { format!("{folder}/{name}") }
}

fn refused(file: &str, problem: String, hint: String) -> FolderError {
    FolderError { file: Some(file.into()), problem, hint }
}

/// The number of a file.
fn number(folder: &dyn Folder, file: &str, (first, last): (u64, u64)) -> Result<u64, FolderError> {
    let error =
        |problem| refused(file, problem, format!("it holds a whole number from {first} to {last}"));
    let text = folder.read(file).map_err(error)?;
    let value = text.trim().parse().ok().filter(|value| (first..=last).contains(value));
    value.ok_or_else(|| {
        let start: String = text.trim().chars().take(20).collect();
        error(format!("{start:?} is no such number"))
    })
}

/// The files of a folder, by folder and name; those of each priority are left out.
fn listed(folder: &dyn Folder) -> Result<Vec<(&'static str, String)>, FolderError> {
    let mut files = Vec::new();
    for at in FOLDERS {
        let error = |problem| {
            let file = (!at.is_empty()).then(|| at.to_string());
            FolderError { file, problem, hint: WHICH.into() }
        };
        let Some(names) = folder.names(at).map_err(error)? else { continue };
        let is_file = |name: &String| {
            let is_folder = name == ENABLE || at.is_empty() && FOLDERS.contains(&name.as_str());
            !is_folder && !name.starts_with('.')
        };
        files.extend(names.into_iter().filter(is_file).map(|name| (at, name)));
    }
    files.sort();
    Ok(files)
}

/// What is said of the priorities for which one of the two points is off.
fn off(folder: &dyn Folder) -> Result<Option<FolderNote>, FolderError> {
    let mut off = Vec::new();
    for at in FOLDERS {
        let enable = path(at, ENABLE);
        let error = |problem| refused(&enable, problem, "it holds a file for each priority".into());
        let mut names = folder.names(&enable).map_err(error)?.unwrap_or_default();
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        for name in names {
            let file = path(&enable, &name);
            if !matches!(name.as_bytes(), [b'0'..=b'7']) {
                let hint = "it is a priority from 0 to 7";
                return Err(refused(&file, "mlx5 has no such file".into(), hint.into()));
            }
            if number(folder, &file, (0, 1))? == 0 {
                off.push(file);
            }
        }
    }
    let text = || {
        format!(
            "{} is 0: such a NIC has no DCQCN for that priority; this is not modelled, and it is on here",
            off.join(", ")
        )
    };
    Ok((!off.is_empty()).then(|| FolderNote { is_warning: true, text: text() }))
}

/// Refuses a name that mlx5 does not have.
fn unknown(file: &str, name: &str) -> FolderError {
    let settings = PARAMETERS.iter().map(|parameter| parameter.mlx5);
    let known: Vec<&str> = settings.chain(NOT_MODELLED.map(|(name, _)| name)).collect();
    let hint = match nearest(name, &known) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("remove it; its files are {}", known.join(", ")),
    };
    refused(file, "mlx5 has no such file".into(), hint)
}

/// Takes the settings that a folder has files for, by mlx5's names. `rpg_max_rate` and `rate_to_set_on_first_cnp` of
/// 0 are the port's rate and none. Returns what the folder says and these settings cannot.
///
/// # Errors
/// A file that cannot be read, says no number of its range, is there twice or is not one of mlx5's; or no file at all.
pub fn read_folder(
    settings: &mut Settings,
    folder: &dyn Folder,
) -> Result<Vec<FolderNote>, FolderError> {
    let files = listed(folder)?;
    let mut notes: Vec<FolderNote> = off(folder)?.into_iter().collect();
    let known = |name: &String| PARAMETERS.iter().position(|it| it.mlx5 == name);
    if !files.iter().any(|(_, name)| known(name).is_some()) {
        return Err(FolderError {
            file: None,
            problem: "it has no file such as roce_rp/rpg_ai_rate".into(),
            hint: WHICH.into(),
        });
    }
    let mut seen: [Option<String>; PARAMETERS.len()] = [const { None }; PARAMETERS.len()];
    for (at, name) in &files {
        let file = path(at, name);
        let not_modelled = NOT_MODELLED.iter().find(|(other, _)| other == name);
        if let Some((_, why)) = not_modelled {
            let text = format!("{file} is not modelled: {why}");
            notes.push(FolderNote { is_warning: false, text });
            continue;
        }
        let Some(index) = known(name) else { return Err(unknown(&file, name)) };
        if let Some(other) = &seen[index] {
            let problem = format!("it is {other} too");
            return Err(refused(&file, problem, "remove one of them".into()));
        }
        let parameter = &PARAMETERS[index];
        let value = number(folder, &file, parameter.mlx5_range().into_inner())?;
        seen[index] = Some(file);
        // Where a NIC chooses for itself, what was set before stays.
        if parameter.theirs != Theirs::OwnChoice || value > 0 {
            parameter.set(settings, parameter.other(value));
        }
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files by their paths.
    struct Files(Vec<(String, String)>);

    impl Folder for Files {
        fn names(&self, folder: &str) -> Result<Option<Vec<String>>, String> {
            let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
            let below = self.0.iter().filter_map(|(file, _)| file.strip_prefix(&prefix));
            let mut names: Vec<String> =
                below.map(|file| file.split('/').next().unwrap_or_default().into()).collect();
            names.dedup();
            Ok((!names.is_empty()).then_some(names))
        }

        fn read(&self, file: &str) -> Result<String, String> {
            let found = self.0.iter().find(|(name, _)| name == file);
            found.map(|(_, text)| text.clone()).ok_or_else(|| "it is no file".into())
        }
    }

    fn files(all: &[(&str, &str)]) -> Files {
        Files(all.iter().map(|&(file, text)| (file.into(), text.into())).collect())
    }

    /// What reading it as the settings of any NIC comes to.
    fn read(all: &[(&str, &str)]) -> Result<(Settings, Vec<FolderNote>), FolderError> {
        let mut settings = Settings::default();
        read_folder(&mut settings, &files(all)).map(|notes| (settings, notes))
    }

    #[test]
    fn the_preset_of_a_connectx_is_what_its_folder_holds() {
        // `mlxconfig query`, and the device's own interval of CNPs.
        let (settings, notes) = read(&[
            ("roce_np/cnp_802p_prio", "6\n"),
            ("roce_np/cnp_dscp", "48\n"),
            ("roce_np/enable/3", "1\n"),
            ("roce_np/min_time_between_cnps", "4\n"),
            ("roce_rp/clamp_tgt_rate", "0\n"),
            ("roce_rp/clamp_tgt_rate_after_time_inc", "1\n"),
            ("roce_rp/dce_tcp_g", "1019\n"),
            ("roce_rp/dce_tcp_rtt", "1\n"),
            ("roce_rp/enable/3", "1\n"),
            ("roce_rp/initial_alpha_value", "1023\n"),
            ("roce_rp/rate_reduce_monitor_period", "4\n"),
            ("roce_rp/rate_to_set_on_first_cnp", "0\n"),
            ("roce_rp/rpg_ai_rate", "5\n"),
            ("roce_rp/rpg_byte_reset", "32767\n"),
            ("roce_rp/rpg_gd", "11\n"),
            ("roce_rp/rpg_hai_rate", "50\n"),
            ("roce_rp/rpg_max_rate", "0\n"),
            ("roce_rp/rpg_min_dec_fac", "50\n"),
            ("roce_rp/rpg_min_rate", "1\n"),
            ("roce_rp/rpg_threshold", "1\n"),
            ("roce_rp/rpg_time_reset", "300\n"),
        ])
        .unwrap();
        assert_eq!(Some(settings), Settings::preset("connectx"));
        let told = "roce_np/cnp_802p_prio is not modelled: CNPs have the priority of their DSCP";
        assert_eq!(notes, [FolderNote { is_warning: false, text: told.into() }]);
    }

    #[test]
    fn an_interval_of_the_nics_own_choice_changes_nothing() {
        let read = read(&[("roce_np/min_time_between_cnps", "0")]);
        assert_eq!(read, Ok((Settings::default(), Vec::new())));
    }

    #[test]
    fn priorities_without_dcqcn_are_told() {
        let (_, notes) = read(&[
            ("roce_np/enable/3", "0"),
            ("roce_rp/enable/3", "1"),
            ("roce_rp/enable/4", "0"),
            ("roce_rp/rpg_gd", "11"),
        ])
        .unwrap();
        let [note] = &notes[..] else { panic!("{notes:?}") };
        assert!(note.is_warning);
        let start = "roce_rp/enable/4, roce_np/enable/3 is 0: such a NIC has no DCQCN";
        assert!(note.text.starts_with(start), "{}", note.text);
    }

    #[test]
    fn a_folder_with_a_mistake_names_its_file() {
        assert!(read(&[("dce_tcp_g", "1023"), (".git", "x")]).is_ok());
        let gd = ("rpg_gd", "11");
        let none = "it has no file such as roce_rp/rpg_ai_rate";
        let (much, nothing) = ("mlx5 has no such file", "\"\" is no such number");
        for (others, file, text, problem, hint) in [
            (&[][..], "dce_tcp_g", "1024", "\"1024\" is no such number", "from 0 to 1023"),
            (&[], "roce_rp/rpg_gd", "9", "\"9\" is no such number", "from 10 to 20"),
            (&[], "roce_np/cnp_dscp", "cs6", "\"cs6\" is no such number", "from 0 to 63"),
            (&[], "roce_rp/rpg_ai_rate", "", nothing, "from 1 to 10000000"),
            (&[gd], "roce_rp/rpg_gd", "11", "it is rpg_gd too", "remove one of them"),
            (&[gd], "roce_rp/rpg_ai_rat", "5", much, "did you mean rpg_ai_rate?"),
            (&[gd], "README", "5", much, "cnp_dscp, cnp_802p_prio"),
            (&[gd], "roce_rp/enable/3", "yes", "\"yes\" is no such number", "from 0 to 1"),
            (&[gd], "roce_rp/enable/8", "1", much, "it is a priority from 0 to 7"),
            (&[], "README", "1", none, "/sys/class/net/eth0/ecn"),
        ] {
            let error = read(&[others, &[(file, text)]].concat()).unwrap_err();
            let named = if problem == none { None } else { Some(file) };
            assert_eq!((error.file.as_deref(), error.problem.as_str()), (named, problem));
            assert!(error.hint.ends_with(hint), "{}", error.hint);
        }
    }
}
