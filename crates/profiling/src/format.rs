//! Writes stacks in the format of pprof: a protobuf message `perftools.profiles.Profile`, compressed with gzip.

use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use prost::Message;

/// The recorded stacks and what is needed to name their functions.
pub struct Capture {
    pub start: Timestamp,
    pub duration: Duration,
    /// CPU time between two samples.
    pub period: Duration,
    pub stacks: Vec<Stack>,
    /// Functions at an address, innermost inlined function first; empty for addresses without symbols.
    pub names: HashMap<u64, Vec<Line>>,
    pub mappings: Vec<Mapping>,
}

/// One stack, innermost frame first.
pub struct Stack {
    pub addresses: Vec<u64>,
    pub thread: String,
    pub samples: i64,
}

/// A function and the line in it.
pub struct Line {
    pub function: String,
    pub file: String,
    pub number: u32,
}

/// A part of a program or library in memory.
#[derive(Debug, PartialEq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub file: String,
}

impl Mapping {
    /// Reads the executable mappings of `/proc/PID/maps`.
    pub fn parse(maps: &str) -> Vec<Self> {
        maps.lines().filter_map(Self::parse_line).collect()
    }

    fn parse_line(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let is_executable = words.next()?.contains('x');
        let offset = words.next()?;
        // Device and inode.
        let file = words.nth(2)?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let mapping = Self { start: number(start)?, end: number(end)?, offset: number(offset)?, file: file.to_owned() };
        is_executable.then_some(mapping)
    }

    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// Returns the message; `compress` makes it a file.
pub fn encode(capture: &Capture) -> Vec<u8> {
    let mut writer = ProfileWriter::new(capture);
    for stack in &capture.stacks {
        writer.add(stack);
    }
    writer.profile.string_table = writer.strings.in_order;
    writer.profile.encode_to_vec()
}

pub fn compress(profile: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(profile)?;
    encoder.finish()
}

/// Strings are written once and referred to by their index; the first one is empty.
struct Strings {
    in_order: Vec<String>,
    index: HashMap<String, i64>,
}

impl Strings {
    fn add(&mut self, text: &str) -> i64 {
        if let Some(index) = self.index.get(text) {
            return *index;
        }
        let index = i64::try_from(self.in_order.len()).unwrap_or_default();
        self.in_order.push(text.to_owned());
        self.index.insert(text.to_owned(), index);
        index
    }
}

struct ProfileWriter<'a> {
    capture: &'a Capture,
    profile: Profile,
    strings: Strings,
    locations: HashMap<u64, u64>,
    functions: HashMap<(i64, i64), u64>,
}

impl<'a> ProfileWriter<'a> {
    fn new(capture: &'a Capture) -> Self {
        let mut strings = Strings { in_order: vec![String::new()], index: HashMap::from([(String::new(), 0)]) };
        let count = ValueType { r#type: strings.add("samples"), unit: strings.add("count") };
        let cpu = ValueType { r#type: strings.add("cpu"), unit: strings.add("nanoseconds") };
        let profile = Profile {
            sample_type: vec![count, cpu],
            mapping: mappings(capture, &mut strings),
            time_nanos: i64::try_from(capture.start.as_nanosecond()).unwrap_or_default(),
            duration_nanos: nanoseconds(capture.duration),
            period_type: Some(cpu),
            period: nanoseconds(capture.period),
            ..Profile::default()
        };
        Self { capture, profile, strings, locations: HashMap::new(), functions: HashMap::new() }
    }

    fn add(&mut self, stack: &Stack) {
        if stack.addresses.is_empty() {
            return;
        }
        let location_id = stack.addresses.iter().map(|address| self.location(*address)).collect();
        let thread = Label { key: self.strings.add("thread"), str: self.strings.add(&stack.thread) };
        let value = vec![stack.samples, stack.samples.saturating_mul(nanoseconds(self.capture.period))];
        self.profile.sample.push(Sample { location_id, value, label: vec![thread] });
    }

    fn location(&mut self, address: u64) -> u64 {
        if let Some(id) = self.locations.get(&address) {
            return *id;
        }
        let capture = self.capture;
        let lines = capture.names.get(&address).map(Vec::as_slice).unwrap_or_default();
        let line = lines.iter().map(|line| self.line(line)).collect();
        let mapping = capture.mappings.iter().position(|mapping| mapping.contains(address));
        let id = self.locations.len() as u64 + 1;
        let mapping_id = mapping.map_or(0, |index| index as u64 + 1);
        self.profile.location.push(Location { id, mapping_id, address, line });
        self.locations.insert(address, id);
        id
    }

    fn line(&mut self, line: &Line) -> LineEntry {
        let (name, filename) = (self.strings.add(&line.function), self.strings.add(&line.file));
        let next = self.functions.len() as u64 + 1;
        let function_id = *self.functions.entry((name, filename)).or_insert(next);
        if function_id == next {
            self.profile.function.push(Function { id: next, name, system_name: name, filename });
        }
        LineEntry { function_id, line: i64::from(line.number) }
    }
}

/// Has no names for mappings whose addresses have none: pprof then looks them up in the program file.
fn mappings(capture: &Capture, strings: &mut Strings) -> Vec<MappingEntry> {
    let entry = |(index, mapping): (usize, &Mapping)| {
        let mut inside =
            capture.names.iter().filter(|(address, _)| mapping.contains(**address)).map(|(_, lines)| lines);
        let has_functions = inside.clone().any(|lines| !lines.is_empty());
        let has_line_numbers = inside.any(|lines| lines.iter().any(|line| line.number > 0));
        MappingEntry {
            id: index as u64 + 1,
            memory_start: mapping.start,
            memory_limit: mapping.end,
            file_offset: mapping.offset,
            filename: strings.add(&mapping.file),
            has_functions,
            has_filenames: has_line_numbers,
            has_line_numbers,
        }
    };
    capture.mappings.iter().enumerate().map(entry).collect()
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<MappingEntry>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
}

#[derive(Clone, PartialEq, Message)]
struct MappingEntry {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    memory_start: u64,
    #[prost(uint64, tag = "3")]
    memory_limit: u64,
    #[prost(uint64, tag = "4")]
    file_offset: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<LineEntry>,
}

#[derive(Clone, PartialEq, Message)]
struct LineEntry {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const MAPS: &str = "\
55d0c0000000-55d0c1000000 r--p 00000000 fd:00 77                         /bin/flotilla
55d0c1000000-55d0c2000000 r-xp 01000000 fd:00 77                         /bin/flotilla
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
";

    #[test]
    fn executable_mappings_are_read() {
        let expected = [
            (0x55d0_c100_0000, 0x55d0_c200_0000, 0x0100_0000, "/bin/flotilla"),
            (0x7ffd_0000_0000, 0x7ffd_0000_2000, 0, "[vdso]"),
        ];
        let expected = expected.map(|(start, end, offset, file)| Mapping { start, end, offset, file: file.to_owned() });
        assert_eq!(Mapping::parse(MAPS), expected);
    }

    fn capture() -> Capture {
        let line = |function: &str, number| Line { function: function.to_owned(), file: "main.rs".to_owned(), number };
        let base = 0x55d0_c100_0000_u64;
        Capture {
            start: Timestamp::UNIX_EPOCH,
            duration: Duration::from_secs(1),
            period: Duration::from_millis(10),
            stacks: vec![
                Stack { addresses: vec![base + 8, base + 16], thread: "worker".to_owned(), samples: 3 },
                Stack { addresses: vec![base + 24, base + 16], thread: "worker".to_owned(), samples: 1 },
                Stack { addresses: Vec::new(), thread: "empty".to_owned(), samples: 1 },
            ],
            names: HashMap::from([
                (base + 8, vec![line("inlined", 7), line("encode", 12)]),
                (base + 16, vec![line("main", 30)]),
                (base + 24, Vec::new()),
            ]),
            mappings: Mapping::parse(MAPS),
        }
    }

    #[test]
    fn strings_functions_and_locations_are_written_once() {
        let profile = Profile::decode(encode(&capture()).as_slice()).expect("a profile");
        assert_eq!(profile.string_table.first().map(String::as_str), Some(""));
        assert_eq!((profile.sample.len(), profile.location.len(), profile.function.len()), (2, 3, 3));
        let values: Vec<_> = profile.sample.iter().map(|sample| sample.value.clone()).collect();
        assert_eq!(values, [vec![3, 30_000_000], vec![1, 10_000_000]]);
        assert!(profile.location.iter().all(|location| location.mapping_id == 1), "{:?}", profile.location);
        assert_eq!(profile.mapping.iter().map(|entry| entry.has_functions).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn go_tool_pprof_reads_a_profile() {
        if Command::new("go").arg("version").output().is_err() {
            return test_skip::skip("go is not installed");
        }
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("profile");
        std::fs::write(&file, compress(&encode(&capture())).expect("compressed")).expect("written");
        let output = Command::new("go").args(["tool", "pprof", "-raw"]).arg(&file).output().expect("go runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for expected in
            ["cpu/nanoseconds", "Duration: 1", "inlined main.rs:7", "encode main.rs:12", "main main.rs:30", "30000000"]
        {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
