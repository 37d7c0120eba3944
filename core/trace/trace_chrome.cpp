#include "core/trace/trace_chrome.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "core/trace/trace_columns.h"

namespace orrery::core {

namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Microseconds with three decimals: nanoseconds exactly.
std::string microseconds(std::int64_t ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

std::int64_t whole_bytes(Bytes bytes) { return std::llround(bytes.value); }

// ---- writing -------------------------------------------------------------------------------

class Writer {
 public:
  explicit Writer(const Trace& trace) : trace_(trace) {}

  std::string write() {
    for (const std::string& name : trace_.names) quoted_names_.push_back(quoted(name));
    find_collectives();
    header();
    for (const Lane& lane : trace_.lanes) write_lane(lane);
    for (std::size_t i = 0; i < trace_.spans.size(); ++i) write_span(i);
    for (std::size_t i = 0; i < trace_.flows.size(); ++i) write_flow(i);
    for (const Counter& counter : trace_.counters) write_counter(counter);
    out_ += "\n]}\n";
    return std::move(out_);
  }

 private:
  template <class... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  void begin_event() {
    out_ += first_event_ ? "\n" : ",\n";
    first_event_ = false;
  }
  const Lane& lane_of(const Span& span) const {
    return trace_.lanes[static_cast<std::size_t>(span.lane)];
  }

  void find_collectives() {
    collective_of_.resize(trace_.spans.size());
    for (std::size_t c = 0; c + 1 < trace_.collective_begin.size(); ++c) {
      for (auto i = trace_.collective_begin[c]; i < trace_.collective_begin[c + 1]; ++i) {
        const auto span = trace_.collective_spans[static_cast<std::size_t>(i)];
        collective_of_[static_cast<std::size_t>(span)] = c;
      }
    }
  }

  void header() {
    append("{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"format\":\"{}\",\"version\":{},",
           kTraceFormat, kTraceVersion);
    append("\"simulated\":{},\"about\":{{", trace_.simulated);
    const char* separator = "";
    for (const auto& [key, value] : trace_.about) {
      append("{}{}:{}", separator, quoted(key), quoted(value));
      separator = ",";
    }
    out_ += "},\"steps\":[";
    separator = "";
    for (const StepInfo& step : trace_.steps) {
      append("{}[{},{}", separator, to_nanoseconds(step.start), to_nanoseconds(step.end));
      if (step.loss && std::isfinite(*step.loss)) append(",{}", nlohmann::json(*step.loss).dump());
      out_ += "]";
      separator = ",";
    }
    out_ += "]},\"traceEvents\":[";
  }

  void write_lane(const Lane& lane) {
    const int pid = lane.rank.value;
    const int tid = static_cast<int>(lane.stream);
    if (named_rank_ != lane.rank) {
      begin_event();
      append(R"({{"ph":"M","name":"process_name","pid":{0},"args":{{"name":"rank {0}"}}}})", pid);
      named_rank_ = lane.rank;
    }
    std::vector<int> also;
    for (Rank rank : lane.also) also.push_back(rank.value);
    begin_event();
    append(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},)", pid, tid);
    append(R"("args":{{"name":"{}","also":[{}]}}}})", stream_name(lane.stream),
           fmt::join(also, ","));
    begin_event();
    append(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},)", pid, tid);
    append(R"("args":{{"sort_index":{}}}}})", tid);
  }

  void write_span(std::size_t i) {
    const Span& span = trace_.spans[i];
    const std::int64_t start = to_nanoseconds(span.start);
    const std::int64_t end = to_nanoseconds(span.end);
    const Lane& lane = lane_of(span);
    begin_event();
    append(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":"{}",)",
           lane.rank.value, static_cast<int>(lane.stream), microseconds(start),
           microseconds(end - start), quoted_names_[static_cast<std::size_t>(span.name)],
           span_kind_name(span.kind));
    append(R"("args":{{"step":{},"call":{},"index":{})", span.instruction.step,
           span.instruction.call, span.instruction.index);
    if (span.microbatch) append(",\"microbatch\":{}", *span.microbatch);
    if (span.bytes.value != 0) append(",\"bytes\":{}", whole_bytes(span.bytes));
    if (const auto transfer = to_nanoseconds(span.transfer); transfer != start) {
      append(",\"wait_ns\":{}", transfer - start);
    }
    if (collective_of_[i]) append(",\"collective\":{}", *collective_of_[i]);
    if (!trace_.dependency_begin.empty()) {
      const auto* first = trace_.dependencies.data() + trace_.dependency_begin[i];
      const auto* last = trace_.dependencies.data() + trace_.dependency_begin[i + 1];
      if (first != last) append(",\"after\":[{}]", fmt::join(first, last, ","));
    }
    out_ += "}}";
  }

  /// An arrow's ends must lie within the spans they join, for the viewer to bind them.
  void write_flow(std::size_t i) {
    const Flow& flow = trace_.flows[i];
    const Span& from = trace_.spans[static_cast<std::size_t>(flow.from_span)];
    const Span& to = trace_.spans[static_cast<std::size_t>(flow.to_span)];
    begin_event();
    append(R"({{"ph":"s","id":{},"pid":{},"tid":{},"ts":{},"name":"flow","cat":"flow",)", i,
           lane_of(from).rank.value, static_cast<int>(lane_of(from).stream),
           microseconds(to_nanoseconds(from.transfer)));
    append(R"("args":{{"from":{},"to":{},"bytes":{}}}}})", flow.from_span, flow.to_span,
           whole_bytes(flow.bytes));
    const std::int64_t arrival =
        std::max(to_nanoseconds(to.start), to_nanoseconds(to.end) - std::int64_t{1});
    begin_event();
    append(R"({{"ph":"f","bp":"e","id":{},"pid":{},"tid":{},"ts":{},"name":"flow","cat":"flow"}})",
           i, lane_of(to).rank.value, static_cast<int>(lane_of(to).stream), microseconds(arrival));
  }

  void write_counter(const Counter& counter) {
    for (std::size_t i = 0; i < counter.time.size(); ++i) {
      begin_event();
      append(R"({{"ph":"C","name":{},"pid":{},"ts":{},"args":{{{}:{}}}}})", quoted(counter.name),
             counter.rank ? counter.rank->value : kNoRank,
             microseconds(to_nanoseconds(counter.time[i])), quoted(counter.unit),
             nlohmann::json(counter.value[i]).dump());
    }
  }

  // Counters of the network belong to no rank; the event format wants a process all the same.
  static constexpr int kNoRank = 1'000'000'000;
  friend class Reader;

  const Trace& trace_;
  std::vector<std::string> quoted_names_;
  std::vector<std::optional<std::size_t>> collective_of_;
  std::optional<Rank> named_rank_;
  bool first_event_ = true;
  std::string out_;
};

// ---- reading -------------------------------------------------------------------------------

using simdjson::dom::element;

/// A trace of another version of the format.
struct OtherVersion {
  std::int64_t version = 0;
};

/// Reads our own events back. simdjson's exceptions name what is missing or of another type.
class Reader {
 public:
  Trace read(element root) {
    element about = root["otherData"];
    if (std::string_view(about["format"]) != kTraceFormat) throw_foreign();
    const std::int64_t version = about["version"];
    if (version != kTraceVersion) throw OtherVersion{version};
    trace_.simulated = bool(about["simulated"]);
    for (const auto [key, value] : about["about"].get_object()) {
      trace_.about.emplace(std::string(key), std::string(std::string_view(value)));
    }
    for (element step : about["steps"].get_array()) read_step(step.get_array());
    trace_.dependency_begin.push_back(0);
    for (element event : root["traceEvents"].get_array()) read_event(event);
    finish_collectives();
    return std::move(trace_);
  }

  [[noreturn]] static void throw_foreign() {
    throw simdjson::simdjson_error(simdjson::INCORRECT_TYPE);
  }

 private:
  static std::int32_t integer(element value) {
    const std::int64_t wide = value.get_int64();
    if (wide < 0 || wide > std::numeric_limits<std::int32_t>::max()) {
      throw simdjson::simdjson_error(simdjson::NUMBER_OUT_OF_RANGE);
    }
    return static_cast<std::int32_t>(wide);
  }
  static double number(element value) { return value.get_double(); }
  static std::int64_t nanoseconds_of(element microseconds_value) {
    const double us = number(microseconds_value);
    if (std::abs(us) > 9e15) throw simdjson::simdjson_error(simdjson::NUMBER_OUT_OF_RANGE);
    return std::llround(us * 1e3);
  }

  void read_step(simdjson::dom::array step) {
    StepInfo info{from_nanoseconds(step.at(0).get_int64()),
                  from_nanoseconds(step.at(1).get_int64()), std::nullopt};
    if (step.size() > 2) info.loss = number(step.at(2));
    trace_.steps.push_back(info);
  }

  void read_event(element event) {
    const std::string_view phase = event["ph"];
    if (phase == "X") {
      read_span(event);
    } else if (phase == "M" && std::string_view(event["name"]) == "thread_name") {
      read_lane(event);
    } else if (phase == "s") {
      element args = event["args"];
      trace_.flows.push_back(
          {integer(args["from"]), integer(args["to"]), Bytes(number(args["bytes"]))});
    } else if (phase == "C") {
      read_counter(event);
    }
  }

  void read_lane(element event) {
    Lane lane{Rank(integer(event["pid"])), static_cast<Stream>(integer(event["tid"])), {}};
    for (element rank : event["args"]["also"].get_array()) {
      lane.also.push_back(Rank(integer(rank)));
    }
    lane_numbers_[{lane.rank, lane.stream}] = static_cast<std::int32_t>(trace_.lanes.size());
    trace_.lanes.push_back(std::move(lane));
  }

  void read_span(element event) {
    element args = event["args"];
    const std::int64_t start = nanoseconds_of(event["ts"]);
    const std::int64_t end = start + nanoseconds_of(event["dur"]);
    const auto lane = lane_numbers_.find(
        {Rank(integer(event["pid"])), static_cast<Stream>(integer(event["tid"]))});
    if (lane == lane_numbers_.end()) throw_foreign();
    Span span;
    span.lane = lane->second;
    span.name = intern(std::string(std::string_view(event["name"])));
    span.kind = kind_named(event["cat"]);
    span.instruction = {integer(args["step"]), integer(args["call"]), integer(args["index"])};
    span.start = from_nanoseconds(start);
    span.transfer = span.start;
    span.end = from_nanoseconds(end);
    element value;
    if (args["microbatch"].get(value) == simdjson::SUCCESS) span.microbatch = integer(value);
    if (args["bytes"].get(value) == simdjson::SUCCESS) span.bytes = Bytes(number(value));
    if (args["wait_ns"].get(value) == simdjson::SUCCESS) {
      span.transfer = from_nanoseconds(start + value.get_int64().value());
    }
    if (args["collective"].get(value) == simdjson::SUCCESS) {
      collectives_[integer(value)].push_back(static_cast<std::int32_t>(trace_.spans.size()));
    }
    if (args["after"].get(value) == simdjson::SUCCESS) {
      for (element other : value.get_array()) trace_.dependencies.push_back(integer(other));
    }
    trace_.dependency_begin.push_back(static_cast<std::int64_t>(trace_.dependencies.size()));
    trace_.spans.push_back(span);
  }

  void read_counter(element event) {
    const std::string name{std::string_view(event["name"])};
    const std::int32_t pid = integer(event["pid"]);
    const auto rank = pid == Writer::kNoRank ? std::optional<Rank>() : Rank(pid);
    const auto [known, is_new] = counter_numbers_.try_emplace({name, pid}, trace_.counters.size());
    for (const auto [unit, value] : event["args"].get_object()) {
      if (is_new) trace_.counters.push_back({name, std::string(unit), rank, {}, {}});
      Counter& counter = trace_.counters[known->second];
      counter.time.push_back(from_nanoseconds(nanoseconds_of(event["ts"])));
      counter.value.push_back(number(value));
      return;
    }
    throw_foreign();
  }

  void finish_collectives() {
    trace_.collective_begin.push_back(0);
    for (const auto& [number, spans] : collectives_) {
      trace_.collective_spans.insert(trace_.collective_spans.end(), spans.begin(), spans.end());
      trace_.collective_begin.push_back(static_cast<std::int64_t>(trace_.collective_spans.size()));
    }
  }

  std::int32_t intern(const std::string& name) {
    const auto [entry, is_new] =
        name_numbers_.try_emplace(name, static_cast<std::int32_t>(trace_.names.size()));
    if (is_new) trace_.names.push_back(name);
    return entry->second;
  }
  static SpanKind kind_named(std::string_view name) {
    for (int k = 0; k < kSpanKinds; ++k) {
      if (span_kind_name(static_cast<SpanKind>(k)) == name) return static_cast<SpanKind>(k);
    }
    throw_foreign();
  }

  Trace trace_;
  std::map<std::pair<Rank, Stream>, std::int32_t> lane_numbers_;
  std::map<std::string, std::int32_t> name_numbers_;
  std::map<std::pair<std::string, std::int32_t>, std::size_t> counter_numbers_;
  std::map<std::int32_t, std::vector<std::int32_t>> collectives_;
};

}  // namespace

std::string trace_to_chrome_json(const Trace& trace) { return Writer(trace).write(); }

Trace trace_from_chrome_json(std::string_view text, const std::string& path) {
  simdjson::dom::parser parser;
  element root;
  if (const auto error = parser.parse(simdjson::padded_string(text)).get(root)) {
    throw ConfigError(fmt::format("{}: not JSON: {}", path, simdjson::error_message(error)));
  }
  try {
    return Reader().read(root);
  } catch (const OtherVersion& other) {
    throw ConfigError(fmt::format("{}: trace format version {}, this program reads {}", path,
                                  other.version, kTraceVersion));
  } catch (const simdjson::simdjson_error& error) {
    throw ConfigError(
        fmt::format("{}: JSON, but not a trace that orrery wrote: {}", path, error.what()));
  }
}

}  // namespace orrery::core
