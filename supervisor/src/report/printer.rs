//! The one place that writes to the standard streams. Results go to standard output, notes and errors to standard error.

use super::style;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Write};

/// Writes for the user.
pub struct Printer {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    out_is_terminal: bool,
}

impl fmt::Debug for Printer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Printer").field("out_is_terminal", &self.out_is_terminal).finish_non_exhaustive()
    }
}

impl Printer {
    /// The streams of this process.
    pub fn standard() -> Self {
        Printer {
            out: Box::new(BufWriter::new(io::stdout())),
            err: Box::new(io::stderr()),
            out_is_terminal: io::stdout().is_terminal(),
        }
    }

    /// Streams of the caller's, neither of them a terminal.
    pub fn to(out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        Printer { out, err, out_is_terminal: false }
    }

    /// Whether a person looks at the results directly.
    pub fn is_terminal(&self) -> bool {
        self.out_is_terminal
    }

    /// One line of the result, as it is.
    ///
    /// # Errors
    /// The reader has gone, or the stream cannot be written.
    pub fn line(&mut self, line: &str) -> io::Result<()> {
        self.out.write_all(line.as_bytes())?;
        self.out.write_all(b"\n")
    }

    /// A document's own text: byte for byte, but on a terminal without what would steer it, and with a line's end.
    ///
    /// # Errors
    /// As [`Printer::line`].
    pub fn document(&mut self, text: &str) -> io::Result<()> {
        if self.out_is_terminal && !text.is_empty() {
            self.line(style::safe_lines(text).trim_end_matches('\n'))
        } else {
            self.out.write_all(text.as_bytes())
        }
    }

    /// Writes out what is still in hand.
    ///
    /// # Errors
    /// As [`Printer::line`].
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// A note beside the result. Where no one can be told, no one is.
    pub fn note(&mut self, note: &str) {
        let note = style::safe_lines(note);
        drop(self.err.write_all(format!("{note}\n").as_bytes()));
    }
}
