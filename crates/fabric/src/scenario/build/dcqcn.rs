//! `[nic.dcqcn]`: what DCQCN is set to, by the names of `transport::congestion::PARAMETERS`.

use transport::congestion::{Congestion, FolderError, PARAMETERS, Settings, read_folder};

use super::{Files, text_of};
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

impl DcqcnTable {
    /// Sets a NIC. `at` is this table.
    pub(super) fn set(&self, nic: &mut NicConfig, at: &At<'_>, files: &Files<'_>) -> Result<()> {
        let Congestion::Dcqcn(reaction) = nic.congestion else {
            let wrong = ScenarioError::at_place(&at.itself(), "nothing obeys these settings");
            return Err(wrong.hint("add congestion = \"dcqcn\" to the table that it is in"));
        };
        let notification = nic.notification.unwrap_or_default();
        let mut settings = Settings { reaction, notification };
        if let Some(preset) = self.preset.and_then(Settings::preset) {
            settings = preset;
        }
        if let Some(folder) = &self.folder {
            let read = |file: &str| {
                let bytes = files(&format!("{folder}/{file}"))?;
                bytes.map(text_of).transpose()
            };
            read_folder(&mut settings, &read).map_err(|FolderError { file, problem, hint }| {
                let file = file.map_or(folder.clone(), |file| format!("{folder}/{file}"));
                at.wrong("folder", format!("{file}: {problem}")).hint(hint)
            })?;
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
        Ok(())
    }
}
