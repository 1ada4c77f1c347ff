//! Reads and writes dbtester's tables: comma-separated, quoted as by Go's `encoding/csv`, lines ending in LF.
//!
//! Not here: the columns of each file (`files`, `analysis`).

/// A table with named columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    /// Names of the columns.
    pub header: Vec<String>,
    /// Rows, each as long as the header.
    pub rows: Vec<Vec<String>>,
}

/// Reason why a text is not a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The text has no lines.
    #[error("it is empty")]
    Empty,
    /// A quoted field does not end.
    #[error("line {line} has a quote that does not end")]
    OpenQuote {
        /// Line of the opening quote, from 1.
        line: usize,
    },
    /// A row's number of fields differs from the header's.
    #[error("line {line} has {fields} fields, but the header has {columns}")]
    Ragged {
        /// Line of the row, from 1.
        line: usize,
        /// Number of fields in the row.
        fields: usize,
        /// Number of fields in the header.
        columns: usize,
    },
    /// A column is missing.
    #[error("it has no column `{0}`")]
    NoColumn(String),
    /// A field of a numeric column is not a number.
    #[error("`{seen}` in row {row} of column `{column}` is not a number")]
    NotANumber {
        /// Name of the column.
        column: String,
        /// Number of the row, from 1, without the header.
        row: usize,
        /// Text of the field.
        seen: String,
    },
}

impl Frame {
    /// Returns an empty table with these columns.
    pub fn new<'a>(header: impl IntoIterator<Item = &'a str>) -> Self {
        Self { header: header.into_iter().map(str::to_owned).collect(), rows: Vec::new() }
    }

    /// Returns a table made of whole columns. Shorter columns are padded with empty fields.
    pub fn from_columns(columns: Vec<(String, Vec<String>)>) -> Self {
        let rows = columns.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
        let cell = |values: &[String], row: usize| values.get(row).cloned().unwrap_or_default();
        let rows = (0..rows).map(|row| columns.iter().map(|(_, v)| cell(v, row)).collect());
        let rows = rows.collect();
        Self { header: columns.into_iter().map(|(name, _)| name).collect(), rows }
    }

    /// Returns the table as CSV text.
    pub fn csv(&self) -> String {
        csv(std::iter::once(&self.header).chain(&self.rows))
    }

    /// Parses CSV text with a header.
    ///
    /// # Errors
    /// When the text is empty, or a row's number of fields differs from the header's.
    pub fn read(text: &str) -> Result<Self, FrameError> {
        let mut lines = lines(text)?.into_iter();
        let (_, header) = lines.next().ok_or(FrameError::Empty)?;
        let columns = header.len();
        let mut rows = Vec::new();
        for (line, row) in lines {
            if row.len() != columns {
                return Err(FrameError::Ragged { line, fields: row.len(), columns });
            }
            rows.push(row);
        }
        Ok(Self { header, rows })
    }

    /// Returns a column's fields.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn column(&self, name: &str) -> Result<Vec<&str>, FrameError> {
        let place = self.header.iter().position(|one| one == name);
        let place = place.ok_or_else(|| FrameError::NoColumn(name.to_owned()))?;
        Ok(self.rows.iter().map(|row| row.get(place).map_or("", String::as_str)).collect())
    }

    /// Returns a column's numbers; an empty field is `None`.
    ///
    /// # Errors
    /// When there is no such column, or a field is not a number.
    pub fn numbers(&self, name: &str) -> Result<Vec<Option<f64>>, FrameError> {
        let number = |(row, text): (usize, &str)| match text.trim() {
            "" => Ok(None),
            text => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Some(number)),
                _ => Err(FrameError::NotANumber {
                    column: name.to_owned(),
                    row: row + 1,
                    seen: text.chars().take(40).collect(),
                }),
            },
        };
        self.column(name)?.into_iter().enumerate().map(number).collect()
    }
}

/// Returns rows as CSV text.
pub(super) fn csv<'a>(rows: impl IntoIterator<Item = &'a Vec<String>>) -> String {
    let mut text = String::new();
    for row in rows {
        for (place, field) in row.iter().enumerate() {
            if place > 0 {
                text.push(',');
            }
            let quoted = field.starts_with(' ') || field.contains(['"', ',', '\n', '\r']);
            match quoted {
                true => {
                    text.push('"');
                    text.push_str(&field.replace('"', "\"\""));
                    text.push('"');
                }
                false => text.push_str(field),
            }
        }
        text.push('\n');
    }
    text
}

/// Parses rows of any length, each with the number of its first line. Skips empty lines.
pub(super) fn lines(text: &str) -> Result<Vec<(usize, Vec<String>)>, FrameError> {
    let mut rows = Vec::new();
    let mut row: Vec<String> = Vec::new();
    let mut field = String::new();
    let (mut line, mut began, mut quote) = (1, 1, None);
    let mut chars = text.chars().peekable();
    while let Some(next) = chars.next() {
        match (next, quote) {
            ('"', Some(_)) if chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            ('"', Some(_)) => quote = None,
            ('"', None) if field.is_empty() => quote = Some(line),
            (',', None) => row.push(std::mem::take(&mut field)),
            ('\r', None) if chars.peek() == Some(&'\n') => {}
            ('\n', None) => {
                if !(row.is_empty() && field.is_empty()) {
                    row.push(std::mem::take(&mut field));
                    rows.push((began, std::mem::take(&mut row)));
                }
                line += 1;
                began = line;
            }
            (other, _) => {
                line += usize::from(other == '\n');
                field.push(other);
            }
        }
    }
    if let Some(line) = quote {
        return Err(FrameError::OpenQuote { line });
    }
    if !(row.is_empty() && field.is_empty()) {
        row.push(field);
        rows.push((began, row));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_the_same_after_writing_and_reading() {
        let mut frame = Frame::new(["A", "B,C", "say \"so\""]);
        frame.rows.push(vec!["1".into(), " led by a space".into(), "two\nlines".into()]);
        frame.rows.push(vec![String::new(), "\"".into(), "é".into()]);
        assert_eq!(Frame::read(&frame.csv()), Ok(frame));
    }

    #[test]
    fn fields_are_quoted_as_go_does() {
        let row = vec!["1,000".to_owned(), "ERROR: \"x\"".to_owned(), "p99".to_owned()];
        assert_eq!(csv([&row]), "\"1,000\",\"ERROR: \"\"x\"\"\",p99\n");
    }

    #[test]
    fn broken_tables_are_refused() {
        let printed = |text: &str| Frame::read(text).unwrap_err().to_string();
        assert_eq!(printed(""), "it is empty");
        assert_eq!(printed("a,b\n1\n"), "line 2 has 1 fields, but the header has 2");
        assert_eq!(printed("a\n\"b\n"), "line 2 has a quote that does not end");
        let frame = Frame::read("a\r\n1\r\nx\r\n\n").unwrap();
        assert_eq!(frame.numbers("b").unwrap_err().to_string(), "it has no column `b`");
        let not = frame.numbers("a").unwrap_err().to_string();
        assert_eq!(not, "`x` in row 2 of column `a` is not a number");
    }
}
