#include "engine/token_data.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/error.h"
#include "engine/mapped_file.h"
#include "engine/safetensors.h"

namespace orrery::engine {

namespace {

// Where the run's sequence number g begins, in tokens.
class Windows {
 public:
  Windows(const std::filesystem::path& path, std::int64_t tokens, int sequence, int global_batch)
      : sequence_(sequence), global_batch_(global_batch), windows_((tokens - 1) / sequence) {
    if (tokens > sequence) return;
    throw core::ConfigError(path.string() + ": holds " + std::to_string(tokens) +
                            " tokens; a sequence of " + std::to_string(sequence) +
                            " and its targets need at least " + std::to_string(sequence + 1));
  }

  std::int64_t begin(int step, std::int64_t sequence_of_batch) const {
    return (step * global_batch_ + sequence_of_batch) % windows_ * sequence_;
  }

 private:
  std::int64_t sequence_, global_batch_, windows_;
};

class TextTokens final : public TokenSource {
 public:
  TextTokens(const std::filesystem::path& path, int sequence, int global_batch)
      : file_(path),
        windows_(path, static_cast<std::int64_t>(file_.bytes().size()), sequence, global_batch) {}

  void read(int step, std::int64_t first, std::int64_t sequences, std::int64_t sequence,
            std::int32_t* tokens, std::int32_t* targets) const override {
    for (std::int64_t s = 0; s < sequences; ++s) {
      const std::byte* from = file_.bytes().data() + windows_.begin(step, first + s);
      for (std::int64_t t = 0; t < sequence; ++t) {
        tokens[s * sequence + t] = std::to_integer<std::int32_t>(from[t]);
        targets[s * sequence + t] = std::to_integer<std::int32_t>(from[t + 1]);
      }
    }
  }

 private:
  MappedFile file_;
  Windows windows_;
};

constexpr std::size_t kLlmcHeaderInts = 256;
constexpr std::int32_t kLlmcMagic = 20240520;
constexpr std::int32_t kLlmcVersion = 1;

std::int64_t llmc_tokens(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const auto fail = [&](const std::string& what) {
    throw core::ConfigError(path.string() + ": not an llm.c token file: " + what);
  };
  constexpr std::size_t kHeaderBytes = kLlmcHeaderInts * sizeof(std::int32_t);
  if (bytes.size() < kHeaderBytes) {
    fail(std::to_string(bytes.size()) + " bytes, fewer than its header's 1024");
  }
  std::int32_t header[3];
  std::memcpy(header, bytes.data(), sizeof header);
  if (header[0] != kLlmcMagic) {
    fail("it begins with " + std::to_string(header[0]) + ", not 20240520");
  }
  if (header[1] != kLlmcVersion) {
    fail("version " + std::to_string(header[1]) + "; version 1 is known");
  }
  const auto held =
      static_cast<std::int64_t>((bytes.size() - kHeaderBytes) / sizeof(std::uint16_t));
  if (header[2] < 0 || header[2] > held) {
    fail("its header says " + std::to_string(header[2]) + " tokens, but it holds " +
         std::to_string(held) + ": the file is cut off");
  }
  return header[2];
}

class LlmcTokens final : public TokenSource {
 public:
  LlmcTokens(const std::filesystem::path& path, int sequence, int global_batch, std::int64_t vocab)
      : path_(path),
        file_(path),
        windows_(path, llmc_tokens(path, file_.bytes()), sequence, global_batch),
        vocab_(vocab) {}

  void read(int step, std::int64_t first, std::int64_t sequences, std::int64_t sequence,
            std::int32_t* tokens, std::int32_t* targets) const override {
    for (std::int64_t s = 0; s < sequences; ++s) {
      const std::int64_t begin = windows_.begin(step, first + s);
      for (std::int64_t t = 0; t < sequence; ++t) {
        tokens[s * sequence + t] = token(begin + t);
        targets[s * sequence + t] = token(begin + t + 1);
      }
    }
  }

 private:
  std::int32_t token(std::int64_t position) const {
    std::uint16_t value = 0;
    std::memcpy(&value,
                file_.bytes().data() + kLlmcHeaderInts * sizeof(std::int32_t) +
                    static_cast<std::size_t>(position) * sizeof value,
                sizeof value);
    if (value >= vocab_) {
      throw core::ConfigError(path_.string() + ": token " + std::to_string(position) + " is " +
                              std::to_string(value) + ", the model's vocabulary has " +
                              std::to_string(vocab_));
    }
    return value;
  }

  std::filesystem::path path_;
  MappedFile file_;
  Windows windows_;
  std::int64_t vocab_;
};

}  // namespace

std::unique_ptr<TokenSource> open_text(const std::filesystem::path& path, int sequence,
                                       int global_batch) {
  return std::make_unique<TextTokens>(path, sequence, global_batch);
}

std::unique_ptr<TokenSource> open_llmc_bin(const std::filesystem::path& path, int sequence,
                                           int global_batch, std::int64_t vocab) {
  return std::make_unique<LlmcTokens>(path, sequence, global_batch, vocab);
}

std::unique_ptr<TokenSource> open_tokens(const core::Job& job, std::int64_t vocab) {
  if (!job.data) throw core::ConfigError("the job names no data");
  switch (job.data->format) {
    case core::DataFormat::Text:
      if (vocab < 256) {
        throw core::ConfigError(job.data->path + ": text is read byte by byte and needs a " +
                                "vocabulary of 256, the model's has " + std::to_string(vocab));
      }
      return open_text(job.data->path, job.sequence, job.global_batch);
    case core::DataFormat::LlmcBin:
      return open_llmc_bin(job.data->path, job.sequence, job.global_batch, vocab);
    case core::DataFormat::CriteoTsv:
      throw core::ConfigError(job.data->path + ": Criteo samples are no tokens");
    case core::DataFormat::Safetensors:
      return open_token_array(job.data->path, vocab);
  }
  ORRERY_CHECK(false, "no such data format");
}

std::unique_ptr<TokenSource> open_token_array(const std::filesystem::path& path,
                                              std::int64_t vocab) {
  const SafetensorsFile file(path);
  const bool split = file.has("input_ids");
  const std::string name = split ? "input_ids" : "tokens";
  const std::span<const std::int32_t> ids = file.ints(name);
  const std::vector<std::int64_t>& shape = file.shape(name);
  if (shape.size() != 3) {
    throw core::ConfigError(path.string() + ": \"" + name + "\" must be [steps, batch, sequence]");
  }
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  if (split) {
    const std::span<const std::int32_t> labels = file.ints("labels");
    tokens.assign(ids.begin(), ids.end());
    targets.assign(labels.begin(), labels.end());
  } else {
    for (std::int64_t row = 0; row < shape[0] * shape[1]; ++row) {
      const auto whole =
          ids.subspan(static_cast<std::size_t>(row * shape[2]), static_cast<std::size_t>(shape[2]));
      tokens.insert(tokens.end(), whole.begin(), whole.end() - 1);
      targets.insert(targets.end(), whole.begin() + 1, whole.end());
    }
  }
  for (const std::vector<std::int32_t>* values : {&tokens, &targets}) {
    for (const std::int32_t value : *values) {
      if (value >= vocab || (values == &tokens && value < 0)) {
        throw core::ConfigError(path.string() + ": token " + std::to_string(value) +
                                ", the model's vocabulary has " + std::to_string(vocab));
      }
    }
  }
  return std::make_unique<TokenArray>(static_cast<int>(shape[1]),
                                      static_cast<int>(split ? shape[2] : shape[2] - 1),
                                      std::move(tokens), std::move(targets));
}

TokenArray::TokenArray(int global_batch, int sequence, std::vector<std::int32_t> tokens,
                       std::vector<std::int32_t> targets)
    : steps_(static_cast<std::int64_t>(tokens.size()) / global_batch / sequence),
      global_batch_(global_batch),
      sequence_(sequence),
      tokens_(std::move(tokens)),
      targets_(std::move(targets)) {
  if (steps_ == 0 || targets_.size() != tokens_.size() ||
      steps_ * global_batch * sequence != static_cast<std::int64_t>(tokens_.size())) {
    throw core::ConfigError("a token array must hold whole batches and as many targets as tokens");
  }
}

void TokenArray::read(int step, std::int64_t first, std::int64_t sequences, std::int64_t sequence,
                      std::int32_t* tokens, std::int32_t* targets) const {
  if (sequence != sequence_ || first < 0 || first + sequences > global_batch_) {
    throw core::SystemError("the program reads other sequences than the token array holds");
  }
  const std::int64_t from = (step % steps_ * global_batch_ + first) * sequence_;
  std::copy_n(tokens_.begin() + from, sequences * sequence, tokens);
  std::copy_n(targets_.begin() + from, sequences * sequence, targets);
}

}  // namespace orrery::engine
