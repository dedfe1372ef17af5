//! Points in time as people write them.

use std::time::{SystemTime, UNIX_EPOCH};

/// As in `2026-11-25 04:16 UTC`; nothing for times before 1970.
pub fn text(time: SystemTime) -> Option<String> {
    let seconds = time.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let (hour, minute) = (seconds / 3_600 % 24, seconds / 60 % 60);
    Some(format!("{} {hour:02}:{minute:02} UTC", date(seconds / 86_400)?))
}

/// As in `2026-11-25 04:16:02.123`, of UTC too.
pub fn to_the_ms(time: SystemTime) -> Option<String> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    let (seconds, ms) = (since.as_secs(), since.subsec_millis());
    let (hour, minute) = (seconds / 3_600 % 24, seconds / 60 % 60);
    Some(format!("{} {hour:02}:{minute:02}:{:02}.{ms:03}", date(seconds / 86_400)?, seconds % 60))
}

/// Whether it is a day, as TOML writes them: `2026-11-25`.
pub(crate) fn is_date(text: &str) -> bool {
    let moment = text.parse::<toml::value::Datetime>();
    moment.is_ok_and(|it| it.date.is_some() && it.time.is_none())
}

/// The date of a day since 1970.
fn date(days: u64) -> Option<String> {
    // Howard Hinnant's civil_from_days: years begin in March, so that the leap day is a year's last.
    let from_0000_03 = days.checked_add(719_468)?;
    let (era, of_era) = (from_0000_03 / 146_097, from_0000_03 % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    Some(format!("{year:04}-{month:02}-{day:02}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn dates_are_days_of_their_month() {
        for day in ["2027-01-31", "2028-02-29", "2000-02-29", "2027-04-30"] {
            assert!(is_date(day), "{day}");
        }
        for none in [
            "2027-13-45",
            "2027-02-29",
            "2100-02-29",
            "2027-04-31",
            "2027-00-10",
            "2027-1-31",
            "2027-01-3x",
            "",
        ] {
            assert!(!is_date(none), "{none}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_709_251_200, "2024-03-01 00:00 UTC"),
            (1_795_580_160, "2026-11-25 04:16 UTC"),
        ] {
            assert_eq!(text(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap(), expected);
        }
        assert_eq!(text(UNIX_EPOCH - Duration::from_secs(1)), None);
        let time = UNIX_EPOCH + Duration::from_millis(951_782_399_007);
        assert_eq!(to_the_ms(time).unwrap(), "2000-02-28 23:59:59.007");
    }
}
