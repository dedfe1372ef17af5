//! Tables as Parquet, with Snappy, which every reader has.

use core::ops::Range;
use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use super::{Cells, Column, Kind, Table};
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
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::super::{Cell, sample};
    use super::*;

    fn bytes(table: &Table) -> Vec<u8> {
        let mut file = Vec::new();
        table.write_parquet(&mut file, &[("origin", "simulated")]).unwrap();
        file
    }

    fn read_back(table: &Table) -> SerializedFileReader<std::fs::File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes(table)).unwrap();
        SerializedFileReader::new(file).unwrap()
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
