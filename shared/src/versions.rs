//! Stage versions: what a stage's result depends on. A number of ours is raised with each change that can change a
//! result; the engine's own version comes from where it is pinned.

use crate::Format;

/// The version of `extract` for documents of this format.
pub fn extract(format: Format) -> &'static str {
    match format {
        Format::Pdf => "1 pdfboss 2.16.1 lopdf 0.47",
        Format::Docx | Format::Xlsx | Format::Xlsb | Format::Pptx => "1 office_oxide 0.1.16",
        Format::Doc | Format::Xls | Format::Ppt | Format::Ole => "1 office_oxide 0.1.16",
        Format::Eml | Format::Mbox => "1 mail-parser 0.11",
        Format::Msg => "1 cfb 0.16",
        Format::Html | Format::Epub => "1 html5ever 0.40",
        Format::Rtf => "1 rtf-parser-tt 0.6",
        Format::Odt | Format::Ods | Format::Odp | Format::Odg | Format::Xml | Format::Vsdx => {
            "1 quick-xml 0.42"
        }
        Format::Zip => "1 zip 9.8",
        Format::Tar => "1 tar 0.4",
        Format::SevenZip => "1 sevenz-rust2 0.25",
        Format::Gzip | Format::Bzip2 | Format::Xz => "1 flate2 1.1 bzip2 0.6 lzma-rust2 0.25",
        Format::Text | Format::Csv | Format::Json => "1 encoding_rs 0.8 chardetng 1.0",
        Format::Fault => "1 fault",
        _ => "1 none",
    }
}

/// The version of `identify`.
pub const IDENTIFY: &str = "1";
/// The version of `normalise`.
pub const NORMALISE: &str = "1";
/// The version of `check`.
pub const CHECK: &str = "1";
