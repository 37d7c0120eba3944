#pragma once
// Token sources: files and arrays.
//
// Sequence i of the global batch of step s is number g = s·global_batch + i of the run. It begins
// at token (g mod windows)·sequence of the file, windows = ⌊(tokens − 1)/sequence⌋, so the file is
// read from its start to its end and again, and any number of ranks sees the same batches.

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "core/job.h"
#include "engine/token_source.h"

namespace orrery::engine {

/// Any file as text, one token per byte: a vocabulary of at least 256.
/// @throws ConfigError when it cannot be read or holds no whole sequence.
std::unique_ptr<TokenSource> open_text(const std::filesystem::path&, int sequence,
                                       int global_batch);

/// llm.c's format: 256 int32 (magic 20240520, version 1, number of tokens), then uint16 tokens.
/// Source: karpathy/llm.c, dev/data/data_common.py. Tokens at or beyond `vocab` are an error when
/// they are read.
/// @throws ConfigError when it cannot be read, naming what the header lacks.
std::unique_ptr<TokenSource> open_llmc_bin(const std::filesystem::path&, int sequence,
                                           int global_batch, std::int64_t vocab);

/// A safetensors file with I32 [steps, batch, sequence] "input_ids" and "labels" (shifted; negative
/// = ignored), or with "tokens" [steps, batch, sequence + 1]: targets are the tokens that follow.
/// @throws ConfigError as SafetensorsFile does, and where a token is not below `vocab`.
std::unique_ptr<TokenSource> open_token_array(const std::filesystem::path&, std::int64_t vocab);

/// What the job names. @throws ConfigError when it names none, or a format without tokens.
std::unique_ptr<TokenSource> open_tokens(const core::Job&, std::int64_t vocab);

/// Tokens and targets held in memory, row-major [steps, global batch, sequence]; after the last
/// step comes the first again.
class TokenArray final : public TokenSource {
 public:
  TokenArray(int global_batch, int sequence, std::vector<std::int32_t> tokens,
             std::vector<std::int32_t> targets);

  void read(int step, std::int64_t first, std::int64_t sequences, std::int64_t sequence,
            std::int32_t* tokens, std::int32_t* targets) const override;

 private:
  std::int64_t steps_, global_batch_, sequence_;
  std::vector<std::int32_t> tokens_, targets_;
};

}  // namespace orrery::engine
