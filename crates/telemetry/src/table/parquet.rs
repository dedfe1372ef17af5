//! Tables as Parquet, with Snappy, which every reader has.

use core::ops::Range;
use core::panic::AssertUnwindSafe;
use std::fs::File;
use std::io::Write;
use std::panic;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;

use super::{Cell, Cells, Column, Kind, Table};
use crate::limits::ROW_GROUP_ROWS;

impl Table {
    /// Writes a file. `about` is put into it as key-value metadata: what the table is of, and
    /// whether it was simulated.
    ///
    /// # Errors
    /// What `file` returns, as [`ParquetError::External`].
    pub fn write_parquet<W: Write + Send>(
        &self,
        file: W,
        about: &[(&str, &str)],
    ) -> Result<(), ParquetError> {
        let mut fields = Vec::new();
        for column in self.columns() {
            fields.push(Arc::new(column.field()?));
        }
        let schema = Type::group_type_builder(self.name()).with_fields(fields).build()?;
        let pairs = about
            .iter()
            .map(|&(key, value)| KeyValue::new(key.to_owned(), value.to_owned()))
            .collect();
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by("ferroce".to_owned())
            .set_key_value_metadata(Some(pairs))
            .build();
        let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
        for first in (0..self.len()).step_by(ROW_GROUP_ROWS) {
            let rows = first..(first + ROW_GROUP_ROWS).min(self.len());
            let mut group = writer.next_row_group()?;
            for column in self.columns() {
                if let Some(mut open) = group.next_column()? {
                    column.write(&mut open, rows.clone())?;
                    open.close()?;
                }
            }
            group.close()?;
        }
        writer.close()?;
        Ok(())
    }
}

impl Table {
    /// Reads a file that [`Table::write_parquet`] has written, and what it says of itself. The unit of a
    /// column is in its name then.
    ///
    /// The library panics over some damaged files. That is an error here, but the panic's hook has run:
    /// who does not want its words takes it away meanwhile.
    ///
    /// # Errors
    /// It is no such file, or damaged.
    pub fn read_parquet(file: File) -> Result<(Self, Vec<(String, String)>), ParquetError> {
        let read = AssertUnwindSafe(|| Self::read_rows(file));
        panic::catch_unwind(read).unwrap_or_else(|_| Err(ParquetError::General("not whole".into())))
    }

    fn read_rows(file: File) -> Result<(Self, Vec<(String, String)>), ParquetError> {
        let reader = SerializedFileReader::new(file)?;
        let metadata = reader.metadata().file_metadata();
        let mut table = Self::new(metadata.schema().name());
        for field in metadata.schema().get_fields() {
            if !field.is_primitive() || table.column(field.name()).is_some() {
                return Err(foreign(field.name()));
            }
            table = match field.get_physical_type() {
                Physical::INT64 => table.integers(field.name(), ""),
                Physical::DOUBLE => table.floats(field.name(), ""),
                Physical::BYTE_ARRAY => table.texts(field.name()),
                _ => return Err(foreign(field.name())),
            };
        }
        let pairs = metadata.key_value_metadata().into_iter().flatten();
        let about = pairs.map(|pair| (pair.key.clone(), pair.value.clone().unwrap_or_default()));
        let about = about.collect();
        for row in reader.get_row_iter(None)? {
            table.push_row(&row?)?;
        }
        Ok((table, about))
    }

    fn push_row(&mut self, row: &Row) -> Result<(), ParquetError> {
        let mut cells = Vec::with_capacity(self.columns.len());
        for (column, (name, field)) in self.columns.iter().zip(row.get_column_iter()) {
            cells.push(match (column.kind(), field) {
                (_, Field::Null) => Cell::Missing,
                (Kind::Integer, Field::Long(value)) => Cell::Integer(*value),
                (Kind::Float, Field::Double(value)) => Cell::Float(*value),
                (Kind::Text, Field::Str(text)) => Cell::Text(text),
                _ => return Err(foreign(name)),
            });
        }
        match cells.len() == self.columns.len() {
            true => self.push(cells),
            false => return Err(foreign(self.name())),
        }
        Ok(())
    }
}

/// What we do not write.
fn foreign(name: &str) -> ParquetError {
    ParquetError::General(format!("{name}: it is none of Ferroce's"))
}

impl Column {
    fn field(&self) -> Result<Type, ParquetError> {
        let (physical, logical) = match self.kind() {
            Kind::Integer => (Physical::INT64, None),
            Kind::Float => (Physical::DOUBLE, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        // Optional whether or not a cell is missing: what a column is does not depend on its rows.
        Type::primitive_type_builder(self.label(), physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
    }

    fn write(
        &self,
        open: &mut SerializedColumnWriter<'_>,
        rows: Range<usize>,
    ) -> Result<(), ParquetError> {
        let present = |row: usize| self.present.get(row) != Some(&false);
        let levels: Vec<i16> = rows.clone().map(|row| i16::from(present(row))).collect();
        let rows = rows.filter(|&row| present(row));
        match &self.cells {
            Cells::Integers(all) => {
                let values: Vec<i64> = rows.map(|row| all[row]).collect();
                open.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
            }
            Cells::Floats(all) => {
                let values: Vec<f64> = rows.map(|row| all[row]).collect();
                open.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
            }
            Cells::Texts(all, texts) => {
                let shared: Vec<ByteArray> =
                    texts.all.iter().map(|text| ByteArray::from(text.as_str())).collect();
                let values: Vec<ByteArray> =
                    rows.map(|row| shared[all[row] as usize].clone()).collect();
                open.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use parquet::record::RowAccessor;

    use super::super::sample;
    use super::*;

    fn bytes(table: &Table) -> Vec<u8> {
        let mut file = Vec::new();
        table.write_parquet(&mut file, &[("origin", "simulated")]).unwrap();
        file
    }

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    fn read_back(table: &Table) -> SerializedFileReader<File> {
        SerializedFileReader::new(file_of(&bytes(table))).unwrap()
    }

    #[test]
    fn a_table_is_the_same_when_it_is_read_again() {
        let (table, about) = Table::read_parquet(file_of(&bytes(&sample()))).unwrap();
        assert_eq!(table.to_csv(), sample().to_csv());
        assert_eq!(about, [("origin".to_owned(), "simulated".to_owned())]);
    }

    #[test]
    fn a_file_that_is_cut_or_damaged_is_an_error_or_a_table_and_ends_no_program() {
        let whole = bytes(&sample());
        for length in 0..whole.len() {
            assert!(Table::read_parquet(file_of(&whole[..length])).is_err(), "{length}");
        }
        for place in 0..whole.len() {
            for bit in [0x01, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[place] ^= bit;
                drop(Table::read_parquet(file_of(&damaged)));
            }
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        let reader = read_back(&sample());
        let about = &reader.metadata().file_metadata().key_value_metadata().unwrap()[0];
        assert_eq!((about.key.as_str(), about.value.as_deref()), ("origin", Some("simulated")));
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[1].get_string(0).unwrap(), "a \"b\", c");
        assert!(rows[1].get_long(1).is_err(), "null");
        assert_eq!(rows[2].get_long(1).unwrap(), i64::MAX);
        assert_eq!(rows[1].get_double(2).unwrap(), -0.25);
    }

    #[test]
    fn the_same_rows_give_the_same_bytes() {
        assert_eq!(bytes(&sample()), bytes(&sample()));
    }

    #[test]
    fn many_rows_make_several_groups() {
        let mut table = Table::new("many").integers("n", "");
        for n in 0..=ROW_GROUP_ROWS {
            table.push([Cell::from(n)]);
        }
        let reader = read_back(&table);
        assert_eq!(reader.num_row_groups(), 2);
        assert_eq!(reader.metadata().file_metadata().num_rows(), ROW_GROUP_ROWS as i64 + 1);
    }
}
