//! The formats that are told apart, for both sides of the boundary.

use serde::{Deserialize, Serialize};

macro_rules! formats {
    ($($variant:ident $name:literal $media:literal $role:ident),* $(,)?) => {
        /// What a document's bytes are. By content, never by name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Format { $(#[doc = $media] $variant),* }

        impl Format {
            /// All of them.
            pub const ALL: &[Format] = &[$(Format::$variant),*];

            /// The name in records and settings.
            pub fn name(self) -> &'static str {
                match self { $(Format::$variant => $name),* }
            }

            /// The media type, as registered where there is a registration.
            pub fn media_type(self) -> &'static str {
                match self { $(Format::$variant => $media),* }
            }

            /// What is done with it.
            pub fn role(self) -> Role {
                match self { $(Format::$variant => Role::$role),* }
            }
        }
    };
}

/// What is done with a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It has a text of its own, and may have members.
    Document,
    /// It has no text of its own: its text is its members' names.
    Archive,
    /// A picture: only `recognise` can read it.
    Picture,
    /// It is known by its bytes, and nothing here reads it.
    Unsupported,
}

formats! {
    Pdf "pdf" "application/pdf" Document,
    Docx "docx" "application/vnd.openxmlformats-officedocument.wordprocessingml.document" Document,
    Xlsx "xlsx" "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" Document,
    Xlsb "xlsb" "application/vnd.ms-excel.sheet.binary.macroenabled.12" Document,
    Pptx "pptx" "application/vnd.openxmlformats-officedocument.presentationml.presentation" Document,
    Vsdx "vsdx" "application/vnd.ms-visio.drawing" Document,
    Odt "odt" "application/vnd.oasis.opendocument.text" Document,
    Ods "ods" "application/vnd.oasis.opendocument.spreadsheet" Document,
    Odp "odp" "application/vnd.oasis.opendocument.presentation" Document,
    Odg "odg" "application/vnd.oasis.opendocument.graphics" Document,
    Html "html" "text/html" Document,
    Xml "xml" "application/xml" Document,
    Rtf "rtf" "application/rtf" Document,
    Epub "epub" "application/epub+zip" Document,
    Eml "eml" "message/rfc822" Document,
    Mbox "mbox" "application/mbox" Archive,
    Msg "msg" "application/vnd.ms-outlook" Document,
    Doc "doc" "application/msword" Document,
    Xls "xls" "application/vnd.ms-excel" Document,
    Ppt "ppt" "application/vnd.ms-powerpoint" Document,
    Text "text" "text/plain" Document,
    Csv "csv" "text/csv" Document,
    Json "json" "application/json" Document,
    Zip "zip" "application/zip" Archive,
    Tar "tar" "application/x-tar" Archive,
    Gzip "gzip" "application/gzip" Archive,
    Bzip2 "bzip2" "application/x-bzip2" Archive,
    Xz "xz" "application/x-xz" Archive,
    SevenZip "7z" "application/x-7z-compressed" Archive,
    // An OLE compound file: the child finds out which.
    Ole "ole" "application/x-ole-storage" Document,
    // A document of the fault language (see fixtures/faults/README.md); plain text unless the settings say otherwise.
    Fault "fault" "text/x-lazaret-fault" Document,
    Png "png" "image/png" Picture,
    Jpeg "jpeg" "image/jpeg" Picture,
    Gif "gif" "image/gif" Picture,
    Tiff "tiff" "image/tiff" Picture,
    Bmp "bmp" "image/bmp" Picture,
    Webp "webp" "image/webp" Picture,
    Rar "rar" "application/vnd.rar" Unsupported,
    Cab "cab" "application/vnd.ms-cab-compressed" Unsupported,
    Zstd "zstd" "application/zstd" Unsupported,
    Lzip "lzip" "application/x-lzip" Unsupported,
    Compress "compress" "application/x-compress" Unsupported,
    Ar "ar" "application/x-archive" Unsupported,
    Cpio "cpio" "application/x-cpio" Unsupported,
    Iso "iso" "application/x-iso9660-image" Unsupported,
    Pst "pst" "application/vnd.ms-outlook-pst" Unsupported,
    Mdb "mdb" "application/x-msaccess" Unsupported,
    OneNote "onenote" "application/onenote" Unsupported,
    Chm "chm" "application/vnd.ms-htmlhelp" Unsupported,
    Tnef "tnef" "application/vnd.ms-tnef" Unsupported,
    Wordperfect "wordperfect" "application/vnd.wordperfect" Unsupported,
    Postscript "postscript" "application/postscript" Unsupported,
    Dwg "dwg" "image/vnd.dwg" Unsupported,
    Djvu "djvu" "image/vnd.djvu" Unsupported,
    Psd "psd" "image/vnd.adobe.photoshop" Unsupported,
    Heif "heif" "image/heif" Unsupported,
    Emf "emf" "image/emf" Unsupported,
    Wmf "wmf" "image/wmf" Unsupported,
    Audio "audio" "audio/basic" Unsupported,
    Video "video" "video/mp4" Unsupported,
    Font "font" "font/sfnt" Unsupported,
    Sqlite "sqlite" "application/vnd.sqlite3" Unsupported,
    Executable "executable" "application/x-executable" Unsupported,
    JavaClass "java-class" "application/java-vm" Unsupported,
    Wasm "wasm" "application/wasm" Unsupported,
    Publisher "pub" "application/x-mspublisher" Unsupported,
    Visio "vsd" "application/vnd.visio" Unsupported,
    Project "mpp" "application/vnd.ms-project" Unsupported,
    Hwp "hwp" "application/x-hwp" Unsupported,
    Iwork "iwork" "application/vnd.apple.iwork" Unsupported,
    // Bytes that are no text and of no known format.
    Unknown "unknown" "application/octet-stream" Unsupported,
}

impl Format {
    /// The format of this name.
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.iter().copied().find(|format| format.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_finds_its_format() {
        for &format in Format::ALL {
            assert_eq!(Format::named(format.name()), Some(format));
        }
    }
}
