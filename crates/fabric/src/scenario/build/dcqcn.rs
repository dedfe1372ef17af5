//! `[nic.dcqcn]`: what DCQCN is set to, by the names of `transport::congestion::PARAMETERS`.

use transport::congestion::{Congestion, Folder, FolderNote, PARAMETERS, Settings, read_folder};

use super::{Files, NOT_THERE, Note, text_of};
use crate::nic::NicConfig;
use crate::scenario::at::{At, Result};
use crate::scenario::error::ScenarioError;
use crate::scenario::table::{Pass, Table};
use crate::scenario::value::{named, or, text, within};

/// What is written; what is not is as it was.
#[derive(Debug, Default)]
pub(super) struct DcqcnTable {
    preset: Option<&'static str>,
    folder: Option<String>,
    /// By parameter: under our name, and under mlx5's.
    said: [[Option<u64>; 2]; PARAMETERS.len()],
}

const AS_IT_IS: &str = "what the preset has";

impl<'a> Table<'a> for DcqcnTable {
    const ABOUT: &'static str = "What DCQCN is set to. The preset counts first, then the folder, then the other keys. Each \
         setting has two names, of which mlx5's is the second.";

    fn pass(&mut self, pass: &mut Pass<'a, '_>) {
        let names = Settings::PRESETS.map(|(name, _)| (name, name));
        pass.key(
            "preset",
            "The paper's constants in proportion to the rate of the port, those constants themselves, \
             which are for 40 Gb/s, or what a ConnectX comes with.",
            &or("\"scaled\"", named(names)),
            &mut self.preset,
        );
        pass.key(
            "folder",
            "A folder, beside the scenario, of files as in /sys/class/net/eth0/ecn: roce_rp/rpg_ai_rate \
             and the like, or all in one folder.",
            &or("none", text("a folder")),
            &mut self.folder,
        );
        for (parameter, [ours, mlx5]) in PARAMETERS.iter().zip(&mut self.said) {
            let (first, last) = parameter.range.clone().into_inner();
            pass.key(parameter.key, parameter.about, &or(AS_IT_IS, within(first, last, "")), ours);
            if parameter.mlx5 == parameter.key {
                continue;
            }
            let (first, last) = parameter.mlx5_range().into_inner();
            let about = format!("{} of mlx5.", parameter.key);
            pass.key(parameter.mlx5, &about, &or(AS_IT_IS, within(first, last, "")), mlx5);
        }
    }

    fn check(&self, at: &At<'a>) -> Result<()> {
        for (parameter, said) in PARAMETERS.iter().zip(self.said) {
            if let [Some(_), Some(_)] = said {
                let wrong = at.wrong(parameter.mlx5, format!("it is {} too", parameter.key));
                return Err(wrong.hint("remove one of them"));
            }
        }
        Ok(())
    }
}

/// A folder among the files that a scenario may name.
struct InFolder<'a> {
    folder: &'a str,
    files: &'a dyn Files,
}

impl Folder for InFolder<'_> {
    fn names(&self, folder: &str) -> core::result::Result<Option<Vec<String>>, String> {
        self.files.names(&format!("{}/{folder}", self.folder))
    }

    fn read(&self, file: &str) -> core::result::Result<String, String> {
        let bytes = self.files.read(&format!("{}/{file}", self.folder))?;
        bytes.ok_or_else(|| NOT_THERE.to_owned()).and_then(text_of)
    }
}

impl DcqcnTable {
    /// Sets a NIC. `at` is this table. Returns what is to be known of the folder.
    pub(super) fn set(
        &self,
        nic: &mut NicConfig,
        at: &At<'_>,
        files: &dyn Files,
    ) -> Result<Vec<Note>> {
        let Congestion::Dcqcn(reaction) = nic.congestion else {
            let wrong = ScenarioError::at_place(&at.itself(), "nothing obeys these settings");
            return Err(wrong.hint("add congestion = \"dcqcn\" to the table that it is in"));
        };
        let notification = nic.notification.unwrap_or_default();
        let mut settings = Settings { reaction, notification };
        if let Some(preset) = self.preset.and_then(Settings::preset) {
            settings = preset;
        }
        let mut notes = Vec::new();
        if let Some(folder) = &self.folder {
            let from = InFolder { folder, files };
            let told = read_folder(&mut settings, &from).map_err(|error| {
                let file = error.file.map_or(folder.clone(), |file| format!("{folder}/{file}"));
                at.wrong("folder", format!("{file}: {}", error.problem)).hint(error.hint)
            })?;
            notes.extend(told.into_iter().map(|FolderNote { is_warning, text }| Note {
                warning: is_warning,
                text: format!("{}.folder {folder}: {text}", at.name),
            }));
        }
        for (parameter, said) in PARAMETERS.iter().zip(self.said) {
            match said {
                [Some(value), _] => parameter.set(&mut settings, value),
                [None, Some(value)] => parameter.set(&mut settings, parameter.other(value)),
                [None, None] => {}
            }
        }
        nic.congestion = Congestion::Dcqcn(settings.reaction);
        nic.notification = Some(settings.notification);
        Ok(notes)
    }
}
