#include <cmath>
#include <fstream>

#include "core/error.h"
#include "core/trace/hdf5_handle.h"
#include "core/trace/trace_hdf5.h"

namespace orrery::core {

namespace {

Handle open_group(hid_t parent, const std::string& name) {
  return Handle(H5Gopen2(parent, name.c_str(), H5P_DEFAULT), H5Gclose, "no group " + name);
}

template <class T>
std::vector<T> read_dataset(hid_t parent, const std::string& name, hid_t type) {
  const Handle dataset(H5Dopen2(parent, name.c_str(), H5P_DEFAULT), H5Dclose, "no dataset " + name);
  const Handle space(H5Dget_space(dataset), H5Sclose, name);
  const hssize_t rows = H5Sget_simple_extent_npoints(space);
  if (rows < 0 || H5Sget_simple_extent_ndims(space) != 1) {
    throw Hdf5Failure{"dataset " + name + " is not one column"};
  }
  // A damaged header may claim any size; the values must fit in the file's own storage unless they
  // are compressed, and deflate shrinks at most about a thousandfold.
  if (static_cast<hsize_t>(rows) * sizeof(T) > (H5Dget_storage_size(dataset) + 1) * 2048) {
    throw Hdf5Failure{"dataset " + name + " claims more rows than its data can hold"};
  }
  std::vector<T> values(static_cast<std::size_t>(rows));
  if (rows > 0) {
    require(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
            "dataset " + name + " cannot be read");
  }
  return values;
}

template <class T>
std::vector<T> read_column(hid_t parent, const std::string& name) {
  return read_dataset<T>(parent, name, native_type<T>());
}

std::vector<std::string> read_texts(hid_t parent, const std::string& name) {
  const Handle type = text_type();
  std::vector<char*> pointers = read_dataset<char*>(parent, name, type);
  std::vector<std::string> texts;
  for (char* pointer : pointers) {
    texts.emplace_back(pointer == nullptr ? "" : pointer);
    H5free_memory(pointer);
  }
  return texts;
}

void read_attribute(hid_t parent, const std::string& name, hid_t type, void* data) {
  const Handle attribute(H5Aopen(parent, name.c_str(), H5P_DEFAULT), H5Aclose,
                         "no attribute " + name);
  require(H5Aread(attribute, type, data), "attribute " + name + " is of another type");
}
std::string read_text(hid_t parent, const std::string& name) {
  char* pointer = nullptr;
  read_attribute(parent, name, text_type(), &pointer);
  std::string text = pointer == nullptr ? "" : pointer;
  H5free_memory(pointer);
  return text;
}
std::int32_t read_integer(hid_t parent, const std::string& name) {
  std::int32_t value = 0;
  read_attribute(parent, name, H5T_NATIVE_INT32, &value);
  return value;
}

std::map<std::string, std::string> read_about(hid_t file) {
  const Handle group = open_group(file, "about");
  std::vector<std::string> names;
  const auto collect = [](hid_t, const char* name, const H5A_info_t*, void* data) -> herr_t {
    static_cast<std::vector<std::string>*>(data)->emplace_back(name);
    return 0;
  };
  hsize_t position = 0;
  require(H5Aiterate2(group, H5_INDEX_NAME, H5_ITER_INC, &position, collect, &names), "about");
  std::map<std::string, std::string> about;
  for (const std::string& name : names) about[name] = read_text(group, name);
  return about;
}

void same_length(std::size_t rows, std::initializer_list<std::size_t> columns,
                 const std::string& group) {
  for (std::size_t column : columns) {
    if (column != rows) throw Hdf5Failure{"the columns of " + group + " differ in length"};
  }
}

std::vector<Lane> read_lanes(hid_t file) {
  const Handle group = open_group(file, "lanes");
  const auto rank = read_column<std::int32_t>(group, "rank");
  const auto stream = read_dataset<std::int8_t>(group, "stream", stream_type());
  const auto begin = read_column<std::int64_t>(group, "also_begin");
  const auto also = read_column<std::int32_t>(group, "also");
  same_length(rank.size(), {stream.size(), begin.size() - 1}, "lanes");
  std::vector<Lane> lanes;
  for (std::size_t i = 0; i < rank.size(); ++i) {
    Lane lane{Rank(rank[i]), static_cast<Stream>(stream[i]), {}};
    if (begin[i] < 0 || begin[i] > begin[i + 1] ||
        begin[i + 1] > static_cast<std::int64_t>(also.size())) {
      throw Hdf5Failure{"lanes/also_begin does not fit lanes/also"};
    }
    for (auto k = begin[i]; k < begin[i + 1]; ++k) {
      lane.also.push_back(Rank(also[static_cast<std::size_t>(k)]));
    }
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

std::vector<Span> read_spans(hid_t file) {
  const Handle group = open_group(file, "spans");
  const auto i32 = [&](const char* name) { return read_column<std::int32_t>(group, name); };
  const auto i64 = [&](const char* name) { return read_column<std::int64_t>(group, name); };
  const auto lane = i32("lane"), name = i32("name"), step = i32("step"), call = i32("call"),
             index = i32("index"), microbatch = i32("microbatch");
  const auto start = i64("start_ns"), transfer = i64("transfer_ns"), end = i64("end_ns"),
             bytes = i64("bytes");
  const auto kind = read_dataset<std::int8_t>(group, "kind", kind_type());
  same_length(lane.size(),
              {name.size(), step.size(), call.size(), index.size(), microbatch.size(), start.size(),
               transfer.size(), end.size(), bytes.size(), kind.size()},
              "spans");
  std::vector<Span> spans(lane.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    spans[i] = {.lane = lane[i],
                .name = name[i],
                .kind = static_cast<SpanKind>(kind[i]),
                .instruction = {step[i], call[i], index[i]},
                .microbatch = std::nullopt,
                .start = from_nanoseconds(start[i]),
                .transfer = from_nanoseconds(transfer[i]),
                .end = from_nanoseconds(end[i]),
                .bytes = Bytes(static_cast<double>(bytes[i]))};
    if (microbatch[i] != kNoMicrobatch) spans[i].microbatch = microbatch[i];
  }
  return spans;
}

void read_links(hid_t file, Trace& trace) {
  const Handle dependencies = open_group(file, "dependencies");
  trace.dependency_begin = read_column<std::int64_t>(dependencies, "begin");
  trace.dependencies = read_column<std::int32_t>(dependencies, "span");
  const Handle collectives = open_group(file, "collectives");
  trace.collective_begin = read_column<std::int64_t>(collectives, "begin");
  trace.collective_spans = read_column<std::int32_t>(collectives, "span");
  const Handle flows = open_group(file, "flows");
  const auto from = read_column<std::int32_t>(flows, "from");
  const auto to = read_column<std::int32_t>(flows, "to");
  const auto bytes = read_column<std::int64_t>(flows, "bytes");
  same_length(from.size(), {to.size(), bytes.size()}, "flows");
  for (std::size_t i = 0; i < from.size(); ++i) {
    trace.flows.push_back({from[i], to[i], Bytes(static_cast<double>(bytes[i]))});
  }
}

std::vector<Counter> read_counters(hid_t file) {
  const Handle counters = open_group(file, "counters");
  H5G_info_t info;
  require(H5Gget_info(counters, &info), "counters");
  std::vector<Counter> all;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const Handle group = open_group(counters, fmt::format("{}", i));
    Counter counter{read_text(group, "name"), read_text(group, "unit"), std::nullopt, {}, {}};
    if (H5Aexists(group, "rank") > 0) counter.rank = Rank(read_integer(group, "rank"));
    for (std::int64_t ns : read_column<std::int64_t>(group, "time_ns")) {
      counter.time.push_back(from_nanoseconds(ns));
    }
    counter.value = read_column<double>(group, "value");
    all.push_back(std::move(counter));
  }
  return all;
}

std::vector<StepInfo> read_steps(hid_t file) {
  const Handle group = open_group(file, "steps");
  const auto start = read_column<std::int64_t>(group, "start_ns");
  const auto end = read_column<std::int64_t>(group, "end_ns");
  const auto loss = read_column<double>(group, "loss");
  same_length(start.size(), {end.size(), loss.size()}, "steps");
  std::vector<StepInfo> steps;
  for (std::size_t i = 0; i < start.size(); ++i) {
    steps.push_back({from_nanoseconds(start[i]), from_nanoseconds(end[i]),
                     std::isnan(loss[i]) ? std::nullopt : std::optional(loss[i])});
  }
  return steps;
}

/// Nothing damaged may reach the HDF5 library, which reads beyond its buffers where a file is wrong.
/// @throws Hdf5Failure when the file does not begin with our user block or its checksum differs.
void check_sum(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string piece(kUserBlock, '\0');
  file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
  if (piece.starts_with("\x89HDF")) throw Hdf5Failure{"HDF5, but not written by orrery"};
  const std::string header = piece;
  piece.resize(std::size_t{1} << 20);
  uLong sum = crc32(0, nullptr, 0);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0) {
    sum =
        crc32(sum, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(file.gcount()));
  }
  if (!header.starts_with(kTraceFormat)) {
    throw Hdf5Failure{"neither HDF5 nor named .json or .json.gz"};
  }
  if (header != user_block(sum)) throw Hdf5Failure{"its checksum differs: damaged or cut off"};
}

Trace read_file(const std::filesystem::path& path) {
  check_sum(path);
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose,
                    "not HDF5, or cut off");
  if (read_text(file, "format") != kTraceFormat) throw Hdf5Failure{"HDF5, but not a trace"};
  if (const int version = read_integer(file, "version"); version != kTraceVersion) {
    throw Hdf5Failure{
        fmt::format("trace format version {}, this program reads {}", version, kTraceVersion)};
  }
  Trace trace;
  trace.simulated = read_integer(file, "simulated") != 0;
  trace.about = read_about(file);
  trace.names = read_texts(file, "names");
  trace.lanes = read_lanes(file);
  trace.spans = read_spans(file);
  read_links(file, trace);
  trace.counters = read_counters(file);
  trace.steps = read_steps(file);
  return trace;
}

}  // namespace

Trace trace_from_hdf5(const std::filesystem::path& path) {
  const QuietHdf5 quiet;
  try {
    return read_file(path);
  } catch (const Hdf5Failure& failure) {
    throw ConfigError(path.string() + ": cannot be read as a trace: " + failure.what);
  }
}

}  // namespace orrery::core
