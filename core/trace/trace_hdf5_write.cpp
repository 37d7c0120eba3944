#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/trace/hdf5_handle.h"
#include "core/trace/trace_hdf5.h"

namespace orrery::core {

namespace {

// Rows per compressed piece: a few hundred KiB, HDF5's usual advice of 10 KiB to 1 MiB.
constexpr hsize_t kChunk = 1 << 16;
constexpr unsigned kDeflateLevel = 1;  // Columns of similar numbers: higher levels gain little.

/// A new column. It holds no time of writing: equal traces are equal files.
Handle create_dataset(hid_t parent, const std::string& name, hid_t type, hsize_t rows,
                      bool compressed) {
  const Handle space(H5Screate_simple(1, &rows, nullptr), H5Sclose, name);
  const Handle create(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, name);
  require(H5Pset_obj_track_times(create, false), name);
  const hsize_t chunk = std::min(kChunk, rows);
  if (compressed) {
    require(H5Pset_chunk(create, 1, &chunk), name);
    require(H5Pset_shuffle(create), name);
    require(H5Pset_deflate(create, kDeflateLevel), name);
  }
  return Handle(H5Dcreate2(parent, name.c_str(), type, space, H5P_DEFAULT, create, H5P_DEFAULT),
                H5Dclose, name);
}

void write_dataset(hid_t parent, const std::string& name, hid_t type, hsize_t rows,
                   const void* data) {
  const Handle dataset = create_dataset(parent, name, type, rows, rows > 1);
  if (rows > 0) require(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), name);
}

template <class T>
void write_column(hid_t parent, const std::string& name, const std::vector<T>& values) {
  write_dataset(parent, name, native_type<T>(), values.size(), values.data());
}

/// One column: `field` of each row, as T.
template <class T, class Rows, class Field>
void write_column(hid_t parent, const std::string& name, const Rows& rows, Field field) {
  std::vector<T> values;
  values.reserve(rows.size());
  for (const auto& row : rows) values.push_back(static_cast<T>(field(row)));
  write_column(parent, name, values);
}

void write_texts(hid_t parent, const std::string& name, const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  const Handle type = text_type();
  const hsize_t rows = texts.size();
  const Handle dataset = create_dataset(parent, name, type, rows, false);
  if (rows > 0) {
    require(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()), name);
  }
}

void write_attribute(hid_t parent, const std::string& name, hid_t type, const void* data) {
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose, name);
  const Handle attribute(H5Acreate2(parent, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose, name);
  require(H5Awrite(attribute, type, data), name);
}
void write_attribute(hid_t parent, const std::string& name, const std::string& text) {
  const char* pointer = text.c_str();
  write_attribute(parent, name, text_type(), &pointer);
}
void write_attribute(hid_t parent, const std::string& name, std::int32_t value) {
  write_attribute(parent, name, H5T_NATIVE_INT32, &value);
}

Handle create_group(hid_t parent, const std::string& name) {
  return Handle(H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose,
                name);
}

void write_lanes(hid_t file, const std::vector<Lane>& lanes) {
  const Handle group = create_group(file, "lanes");
  write_column<std::int32_t>(group, "rank", lanes, [](const Lane& l) { return l.rank.value; });
  std::vector<std::int8_t> streams;
  std::vector<std::int64_t> begin{0};
  std::vector<std::int32_t> also;
  for (const Lane& lane : lanes) {
    streams.push_back(static_cast<std::int8_t>(lane.stream));
    for (Rank rank : lane.also) also.push_back(rank.value);
    begin.push_back(static_cast<std::int64_t>(also.size()));
  }
  write_dataset(group, "stream", stream_type(), streams.size(), streams.data());
  write_column(group, "also_begin", begin);
  write_column(group, "also", also);
}

void write_spans(hid_t file, const std::vector<Span>& spans) {
  const Handle group = create_group(file, "spans");
  using I32 = std::int32_t;
  using I64 = std::int64_t;
  write_column<I32>(group, "lane", spans, [](const Span& s) { return s.lane; });
  write_column<I32>(group, "name", spans, [](const Span& s) { return s.name; });
  write_column<I32>(group, "step", spans, [](const Span& s) { return s.instruction.step; });
  write_column<I32>(group, "call", spans, [](const Span& s) { return s.instruction.call; });
  write_column<I32>(group, "index", spans, [](const Span& s) { return s.instruction.index; });
  write_column<I32>(group, "microbatch", spans,
                    [](const Span& s) { return s.microbatch.value_or(kNoMicrobatch); });
  write_column<I64>(group, "start_ns", spans,
                    [](const Span& s) { return to_nanoseconds(s.start); });
  write_column<I64>(group, "transfer_ns", spans,
                    [](const Span& s) { return to_nanoseconds(s.transfer); });
  write_column<I64>(group, "end_ns", spans, [](const Span& s) { return to_nanoseconds(s.end); });
  write_column<I64>(group, "bytes", spans,
                    [](const Span& s) { return std::llround(s.bytes.value); });
  std::vector<std::int8_t> kinds;
  for (const Span& span : spans) kinds.push_back(static_cast<std::int8_t>(span.kind));
  write_dataset(group, "kind", kind_type(), kinds.size(), kinds.data());
}

void write_links(hid_t file, const Trace& trace) {
  const Handle dependencies = create_group(file, "dependencies");
  write_column(dependencies, "begin", trace.dependency_begin);
  write_column(dependencies, "span", trace.dependencies);
  const Handle collectives = create_group(file, "collectives");
  write_column(collectives, "begin", trace.collective_begin);
  write_column(collectives, "span", trace.collective_spans);
  const Handle flows = create_group(file, "flows");
  write_column<std::int32_t>(flows, "from", trace.flows, [](const Flow& f) { return f.from_span; });
  write_column<std::int32_t>(flows, "to", trace.flows, [](const Flow& f) { return f.to_span; });
  write_column<std::int64_t>(flows, "bytes", trace.flows,
                             [](const Flow& f) { return std::llround(f.bytes.value); });
}

void write_counters_and_steps(hid_t file, const Trace& trace) {
  const Handle counters = create_group(file, "counters");
  for (std::size_t i = 0; i < trace.counters.size(); ++i) {
    const Counter& counter = trace.counters[i];
    const Handle group = create_group(counters, fmt::format("{}", i));
    write_attribute(group, "name", counter.name);
    write_attribute(group, "unit", counter.unit);
    if (counter.rank) write_attribute(group, "rank", counter.rank->value);
    write_column<std::int64_t>(group, "time_ns", counter.time, to_nanoseconds);
    write_column(group, "value", counter.value);
  }
  const Handle steps = create_group(file, "steps");
  write_column<std::int64_t>(steps, "start_ns", trace.steps,
                             [](const StepInfo& s) { return to_nanoseconds(s.start); });
  write_column<std::int64_t>(steps, "end_ns", trace.steps,
                             [](const StepInfo& s) { return to_nanoseconds(s.end); });
  write_column<double>(steps, "loss", trace.steps, [](const StepInfo& s) {
    return s.loss.value_or(std::numeric_limits<double>::quiet_NaN());
  });
}

/// The file is made in memory: writing its bytes out at once is what can fail cleanly.
std::string file_image(const Trace& trace) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "file");
  constexpr std::size_t kGrowth = std::size_t{1} << 20;
  require(H5Pset_fapl_core(access, kGrowth, 0), "file");
  const Handle file(H5Fcreate("trace", H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose, "file");
  write_attribute(file, "format", std::string(kTraceFormat));
  write_attribute(file, "version", kTraceVersion);
  write_attribute(file, "simulated", trace.simulated ? 1 : 0);
  {
    const Handle about = create_group(file, "about");
    for (const auto& [key, value] : trace.about) write_attribute(about, key, value);
  }
  write_texts(file, "names", trace.names);
  write_lanes(file, trace.lanes);
  write_spans(file, trace.spans);
  write_links(file, trace);
  write_counters_and_steps(file, trace);
  require(H5Fflush(file, H5F_SCOPE_GLOBAL), "file");
  const ssize_t size = H5Fget_file_image(file, nullptr, 0);
  if (size < 0) throw Hdf5Failure{"file"};
  std::string image(static_cast<std::size_t>(size), '\0');
  if (H5Fget_file_image(file, image.data(), image.size()) < 0) throw Hdf5Failure{"file"};
  return image;
}

}  // namespace

std::string trace_to_hdf5(const Trace& trace) {
  const QuietHdf5 quiet;
  try {
    const std::string image = file_image(trace);
    uLong sum = crc32(0, nullptr, 0);
    sum = crc32_z(sum, reinterpret_cast<const Bytef*>(image.data()), image.size());
    return user_block(sum) + image;
  } catch (const Hdf5Failure& failure) {
    throw SystemError("HDF5 cannot write " + failure.what + " (out of memory?)");
  }
}

}  // namespace orrery::core
