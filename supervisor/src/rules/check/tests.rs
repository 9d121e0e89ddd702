//! Each verdict from a text that calls for it, and honest texts that must pass.

use super::*;
use crate::settings::Check;

fn checked(text: &str, format: Format, size: u64, metadata: Option<&Metadata>) -> (Option<Kind>, Measures) {
    under(text, format, size, metadata, &Check::default())
}

/// As [`check`], of a raw text.
fn under(
    text: &str,
    format: Format,
    size: u64,
    metadata: Option<&Metadata>,
    thresholds: &Check,
) -> (Option<Kind>, Measures) {
    let raw = Raw::of(text);
    check(&normalise::normalise(text.to_owned()), &raw, format, size, metadata, thresholds)
}

fn kind(text: &str, format: Format) -> Option<Kind> {
    checked(text, format, 1_000, None).0
}

fn pages(pages: u32, with_text: u32, page_images: u32) -> Metadata {
    Metadata {
        pages: Some(pages),
        pages_with_text: Some(with_text),
        page_images: Some(page_images),
        ..Metadata::default()
    }
}

#[test]
fn honest_documents_pass_in_every_language() {
    for text in [
        "hello",
        "x",
        "42",
        "1.5\t2.5\t-3e9\n4 5 6\n",
        "a,b,c\n1,2,3\n",
        "{\"a\": [1, 2, {\"b\": null}]}",
        "中文",
        "日本語のテキストです。",
        "ภาษาไทย",
        "हिन्दी में पाठ",
        "שלום",
        "نص عربي",
        "Привет, мир!",
        "/usr/bin /etc/passwd",
    ] {
        assert_eq!(kind(text, Format::Text), None, "{text:?}");
    }
    let figures = "1,234.50 -17.25 (3.1) ".repeat(100);
    assert_eq!(kind(&figures, Format::Xlsx), None);
    let sparse = ",,,,,,,1,,,,,,,,\n".repeat(100);
    assert_eq!(kind(&sparse, Format::Csv), None);
    assert_eq!(checked("Invoice 17", Format::Pdf, 40_000, Some(&pages(1, 1, 0))).0, None);
}

#[test]
fn what_says_nothing_is_empty() {
    for text in ["", " \n", "---", "\u{2022} \u{2022}"] {
        assert_eq!(kind(text, Format::Pdf), Some(Kind::ContentEmpty), "{text:?}");
    }
}

#[test]
fn almost_nothing_where_pages_promise_more_is_near_empty() {
    let scan = |text: &str, pages: &Metadata| checked(text, Format::Pdf, 90_000, Some(pages)).0;
    assert_eq!(scan("p1", &pages(1, 1, 1)), Some(Kind::ContentNearEmpty));
    assert_eq!(scan("1 2 3 4 5", &pages(5, 5, 0)), Some(Kind::ContentNearEmpty));
    assert_eq!(scan("Title", &pages(1, 1, 0)), None);
    let one_word_a_page = "Potato 0\n".repeat(30);
    assert_eq!(scan(&one_word_a_page, &pages(30, 30, 0)), None);
    assert_eq!(scan(&one_word_a_page, &pages(30, 30, 30)), Some(Kind::ContentNearEmpty));
    assert_eq!(checked("ab", Format::Docx, 1 << 20, None).0, Some(Kind::ContentNearEmpty));
    assert_eq!(checked("ab", Format::Text, 1 << 20, None).0, None);
}

#[test]
fn what_could_not_be_decoded_is_garbled() {
    for text in [
        "\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
        "\u{ffff}\u{ffff}\u{ffff}\u{ffff}",
        "(cid:12)(cid:7) (cid:3) (cid:44)",
        "/G21/G33 /G01 /G5A",
        "\u{e001}\u{e002}\u{e003}\u{e004} ab",
    ] {
        assert_eq!(kind(text, Format::Pdf), Some(Kind::ContentGarbled), "{text:?}");
    }
    let symbols = "a!§$%&/()=? ".repeat(60);
    assert_eq!(kind(&symbols, Format::Pdf), Some(Kind::ContentGarbled));
    assert_eq!(kind("caf\u{fffd}", Format::Text), None);
}

#[test]
fn pages_without_text_are_under_extracted_from_four_on() {
    let text = "A page with enough words to be a page of text. ".repeat(20);
    let with = |metadata: &Metadata| checked(&text, Format::Pdf, 90_000, Some(metadata)).0;
    assert_eq!(with(&pages(4, 1, 3)), Some(Kind::ContentUnderExtracted));
    assert_eq!(with(&pages(4, 2, 2)), None);
    assert_eq!(with(&pages(3, 1, 2)), None);
    assert_eq!(with(&pages(0, 0, 0)), None);
}

const ENGLISH: &str = "The committee met in the morning and heard what the auditors had to say about the accounts of the last \
    year. Nobody was surprised that the costs had grown again, but some of the members asked why the new building was not \
    finished yet. It was decided that a letter should be sent to the company, and that the matter would be taken up again \
    when the answer was known. After a short break they talked about the schools in the northern part of the city.";
const RUSSIAN: &str = "Комитет собрался утром и выслушал, что аудиторы хотели сказать о счетах за прошлый год. Никто не был удивлён \
    тем, что расходы снова выросли, но некоторые члены спросили, почему новое здание ещё не закончено. Было решено отправить \
    письмо компании и вернуться к этому вопросу, когда ответ будет известен. После короткого перерыва они говорили о \
    школах в северной части города и о том, что нужно сделать для детей, которые живут далеко от центра.";
/// Of no list, each: Finnish, Basque, Kurdish, Indonesian, Kazakh.
const UNLISTED: [&str; 5] = [
    "Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan. Heille on annettu järki ja omatunto, ja \
     heidän on toimittava toisiaan kohtaan veljeyden hengessä. Jokainen on oikeutettu kaikkiin tässä julistuksessa \
     esitettyihin oikeuksiin ja vapauksiin ilman minkäänlaista rotuun, väriin, sukupuoleen, kieleen, uskontoon tai \
     poliittiseen mielipiteeseen perustuvaa erotusta. Jokaisella on oikeus elämään, vapauteen ja turvallisuuteen. Ketään ei \
     saa pitää orjuudessa tai orjuuden kaltaisessa alistuksessa; kaikenlainen orjuus ja orjakauppa on kiellettävä.",
    "Gizon-emakume guztiak aske jaiotzen dira, duintasun eta eskubide berberak dituztela; eta ezaguera eta kontzientzia \
     dutenez gero, elkarren artean senide legez jokatu beharra dute. Gizaki orori dagozkio Adierazpen honetan aldarrikatutako \
     eskubide eta askatasunak, eta ez da inor bereiziko arraza, larru-kolore, sexu, hizkuntza, erlijio, politikako edo \
     bestelako iritzi, sorterri edo gizarteko jatorri, ekonomi maila, jaiotza edo beste inolako gorabeherengatik.",
    "Hemû mirov azad û di weqar û mafan de wekhev tên dinyayê. Ew xwedî hiş û şuûr in û divê li hember hev bi zihniyeteke \
     bratiyê bilivin. Herkes, bêyî ti cudahî, nemaze ya nijad, reng, cinsiyet, ziman, ol, ramana siyasî an ramana din, esl û \
     eslê neteweyî an civakî, serwet, zayîn an jî rewşeke din, xwediyê hemû maf û hemû azadiyên ku di vê danezanê de hatine \
     daxuyankirin e. Mafê jiyan, azadî û ewlekariya şexsî yê her kesî heye.",
    "Semua orang dilahirkan merdeka dan mempunyai martabat dan hak yang sama. Mereka dikaruniai akal dan hati nurani dan \
     hendaknya bergaul satu sama lain dalam semangat persaudaraan. Setiap orang berhak atas semua hak dan kebebasan yang \
     tercantum di dalam Pernyataan ini tanpa perkecualian apapun, seperti ras, warna kulit, jenis kelamin, bahasa, agama, \
     politik atau pendapat yang berlainan, asal mula kebangsaan atau kemasyarakatan, hak milik, kelahiran ataupun kedudukan lain.",
    "Барлық адамдар тумысынан азат және қадір-қасиеті мен кұқықтары тең болып дүниеге келеді. Адамдарға ақыл-парасат, ар-ождан \
     берілген, сондықтан олар бір-бірімен туыстық, бауырмалдық қарым-қатынас жасаулары тиіс. Әр адам нәсіліне, түсіне, \
     жынысына, тіліне, дініне, саяси немесе басқа да сенімдеріне, ұлттық немесе әлеуметтік тегіне, мүліктік, тектік немесе \
     басқа да жағдайларына қарамастан, осы Декларацияда жарияланған барлық құқықтар мен бостандықтарға ие болуға тиіс.",
];
const SPECIES: &str = "Quercus robur, Quercus petraea, Fagus sylvatica, Betula pendula, Alnus glutinosa, Corylus avellana, Carpinus \
    betulus, Castanea sativa, Juglans regia, Ulmus glabra, Tilia cordata, Acer campestre, Fraxinus excelsior, Sorbus \
    aucuparia, Prunus avium, Crataegus monogyna, Malus sylvestris, Rosa canina, Rubus fruticosus, Fragaria vesca, Geum \
    urbanum, Ranunculus acris, Anemone nemorosa, Papaver rhoeas, Viola odorata, Salix alba, Populus tremula, Pinus sylvestris";

/// Each ASCII letter, moved on within its alphabet.
fn rotated(text: &str, by: u8) -> String {
    let turn = |char: char| match u8::try_from(char) {
        Ok(byte @ b'a'..=b'z') => char::from((byte - b'a' + by) % 26 + b'a'),
        Ok(byte @ b'A'..=b'Z') => char::from((byte - b'A' + by) % 26 + b'A'),
        _ => char,
    };
    text.chars().map(turn).collect()
}

/// The numbers of glyphs, as a subset of a font counts them, taken for characters.
fn shifted(text: &str, by: u32) -> String {
    let shift = |char: char| match u32::from(char) {
        code @ 33..=126 => char::from_u32((code - by).max(33)).unwrap(),
        _ => char,
    };
    text.chars().map(shift).collect()
}

/// Bytes of Windows-1251 taken for KOI8-R: each letter of one alphabet for another of the same.
fn koi(text: &str) -> String {
    const KOI: &str = "юабцдефгхийклмнопярстужвьызшэщчъЮАБЦДЕФГХИЙКЛМНОПЯРСТУЖВЬЫЗШЭЩЧЪ";
    let place = |char: char| match u32::from(char) {
        code @ 0x410..=0x44f => usize::try_from(code - 0x410).ok(),
        _ => None,
    };
    text.chars().map(|char| place(char).and_then(|place| KOI.chars().nth(place)).unwrap_or(char)).collect()
}

/// UTF-8 read as Windows-1252, but for the five bytes that it lacks.
fn twice_encoded(text: &str) -> String {
    let upper: Vec<char> = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ".chars().collect();
    text.bytes()
        .map(|byte| match byte {
            0x80..=0x9f => upper[usize::from(byte - 0x80)],
            _ => char::from(byte),
        })
        .collect()
}

#[test]
fn honest_texts_without_common_words_are_not_garbled() {
    for text in UNLISTED.iter().chain([&ENGLISH, &RUSSIAN, &SPECIES]) {
        for format in [Format::Pdf, Format::Text] {
            let (kind, measures) = checked(text, format, 1_000, None);
            assert_eq!(kind, None, "{text}\n{measures:?}");
        }
    }
    let (_, measures) = checked(SPECIES, Format::Pdf, 1_000, None);
    assert!(measures.common_words.unwrap() < 0.1 && measures.odd_pairs.unwrap() < 0.15, "{measures:?}");
}

#[test]
fn letters_that_were_exchanged_are_garbled() {
    for text in
        [rotated(ENGLISH, 13), rotated(ENGLISH, 1), shifted(ENGLISH, 29), shifted(ENGLISH, 3), koi(RUSSIAN)]
    {
        let (kind, measures) = checked(&text, Format::Pdf, 1_000, None);
        assert_eq!(kind, Some(Kind::ContentGarbled), "{text}\n{measures:?}");
        let never = Check { common_words: 0.0, ..Check::default() };
        assert_eq!(under(&text, Format::Pdf, 1_000, None, &never).0, None, "{text}");
    }
}

#[test]
fn what_is_ascii_in_a_file_of_text_was_not_misread() {
    let ciphered = rotated(ENGLISH, 13);
    assert_eq!(checked(&ciphered, Format::Text, 1_000, None).0, None);
    assert_eq!(checked(&koi(RUSSIAN), Format::Text, 1_000, None).0, Some(Kind::ContentGarbled));
}

#[test]
fn a_mistaken_charset_is_garbled() {
    let text = twice_encoded(RUSSIAN);
    let (kind, measures) = checked(&text, Format::Html, 1_000, None);
    assert_eq!(kind, Some(Kind::ContentGarbled), "{measures:?}");
    // A few umlauts leave the rest readable.
    let german =
        twice_encoded("Über die Brücke führt ein schöner Weg in die Stadt und wieder zurück nach Hause. ");
    assert_eq!(checked(&german, Format::Html, 1_000, None).0, None);
}

#[test]
fn each_threshold_is_a_setting() {
    let stamped =
        (1..=8).map(|n| format!("Scanned by the archive, sheet {n}\n")).collect::<Vec<_>>().join("\u{c}");
    let paged = "A page with enough words to be a page of text. ".repeat(20);
    let default = Check::default();
    for (text, metadata, kind, lax) in [
        ("a b c", pages(1, 1, 1), Kind::ContentNearEmpty, Check { near_empty: 3, ..default }),
        ("1 2 3 4 5", pages(5, 5, 0), Kind::ContentNearEmpty, Check { near_empty: 2, ..default }),
        (&paged, pages(10, 4, 0), Kind::ContentUnderExtracted, Check { under_extracted: 0.4, ..default }),
        (
            "ab\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
            pages(1, 1, 0),
            Kind::ContentGarbled,
            Check { junk: 0.7, ..default },
        ),
        (
            "(cid:1) (cid:2) (cid:3) (cid:4) ab cd ef",
            pages(1, 1, 0),
            Kind::ContentGarbled,
            Check { glyph_codes: 0.6, ..default },
        ),
        (&stamped, pages(8, 8, 8), Kind::ContentNearEmpty, Check { repeated_lines: 1.0, ..default }),
    ] {
        let size = 90_000;
        assert_eq!(checked(text, Format::Pdf, size, Some(&metadata)).0, Some(kind), "{text:?}");
        assert_eq!(under(text, Format::Pdf, size, Some(&metadata), &lax).0, None, "{text:?}");
    }
}

#[test]
fn a_form_on_each_page_is_no_stamp() {
    let form = (1..=8).map(|n| format!("Name\nStreet and number\nDate of birth\nInsured since {n}\n"));
    let form = form.collect::<Vec<_>>().join("\u{c}");
    let of_pictures = |images| checked(&form, Format::Pdf, 90_000, Some(&pages(8, 8, images))).0;
    assert_eq!((of_pictures(0), of_pictures(4)), (None, None));
    assert_eq!(of_pictures(5), Some(Kind::ContentNearEmpty));
}

#[test]
fn controls_count_though_normalising_takes_them_out() {
    let (kind, measures) = checked("a\u{1}b\u{2}c\u{3}d\u{4}", Format::Text, 8, None);
    assert_eq!(kind, Some(Kind::ContentGarbled));
    assert!((measures.junk - 0.5).abs() < 1e-9, "{measures:?}");
}

#[test]
fn an_empty_text_is_scored() {
    let (kind, measures) = checked("", Format::Pdf, 90_000, Some(&pages(6, 0, 6)));
    assert_eq!(kind, Some(Kind::ContentEmpty));
    assert_eq!((measures.chars, measures.chars_a_page, measures.pages_with_text), (0, Some(0.0), Some(0.0)));
    assert_eq!((measures.common_words, measures.repeated_lines), (None, None));
}

#[test]
fn each_verdict_goes_where_it_can_be_bettered() {
    use Kind::{ContentEmpty, ContentGarbled, ContentNearEmpty, ContentUnderExtracted};
    let (scan, plain) = (pages(3, 0, 3), pages(3, 0, 0));
    for (kind, format, metadata, another, expected) in [
        (ContentEmpty, Format::Pdf, Some(&scan), false, Route::Recognise),
        (ContentNearEmpty, Format::Pdf, Some(&scan), true, Route::Recognise),
        (ContentUnderExtracted, Format::Pdf, Some(&scan), true, Route::Recognise),
        (ContentGarbled, Format::Pdf, Some(&scan), true, Route::NextExtractor),
        (ContentGarbled, Format::Pdf, Some(&scan), false, Route::Recognise),
        (ContentGarbled, Format::Pdf, Some(&plain), false, Route::Suspect),
        (ContentEmpty, Format::Pdf, Some(&plain), true, Route::NextExtractor),
        (ContentEmpty, Format::Pdf, Some(&plain), false, Route::Suspect),
        (ContentEmpty, Format::Pdf, None, false, Route::Suspect),
        (ContentEmpty, Format::Docx, Some(&scan), false, Route::Suspect),
        (ContentNearEmpty, Format::Docx, None, true, Route::NextExtractor),
        (ContentGarbled, Format::Html, None, false, Route::Suspect),
        (Kind::ParseMalformed, Format::Pdf, Some(&scan), true, Route::Suspect),
    ] {
        assert_eq!(
            route(kind, format, metadata, another),
            expected,
            "{kind:?} {format:?} {metadata:?} {another}"
        );
    }
}
