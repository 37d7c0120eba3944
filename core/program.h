#pragma once
// A plan lowered: per-rank instruction lists. Simulator and engine are two interpreters of it.
//
//   Program ── roles ──▶ Role: buffers, parameters, blocks, the step's calls
//      │                         Block = instructions of one pass of one stage (stored once)
//      │                         Call  = one block on one microbatch, in the step's order
//      └── ranks ──▶ RankBinding: which role, which group fills each slot, which rank each peer
//
// Repetition is stored once: ranks that do the same share a Role (a tensor group's ranks differ
// only in their position within the group), and microbatches share a Block.
//
// Meaning. Each rank runs its role's calls step after step. The instructions of a rank are ordered
// by (call, index); each belongs to a stream, and
//   (1) a stream runs its instructions in that order, one at a time;
//   (2) an instruction starts after every instruction it waits for has ended: `waits` within the
//       call, `Call::waits` across calls;
//   (3) a step's instructions start after all of the rank's previous step have ended;
//   (4) a collective starts moving data when every member has started it; its k-th occurrence on a
//       group's stream at one member meets the k-th at every other;
//   (5) a send meets the receive at its peer: the k-th on a channel from a to b meets the k-th;
//       data moves when both have started (rendezvous), and both end when it has arrived.
// Nothing else orders instructions, so two interpreters may differ in time but not in order. A CPU
// rank computes with one thread, whatever its streams: of the compute instructions that may start the
// engine takes the first in program order, while the simulator lets them share the thread.
//
// A run needs the Job beside the Program: data, seed, initial weights, and the learning rate of each
// step.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/ids.h"
#include "core/job.h"
#include "core/operator.h"
#include "core/units.h"

namespace orrery::core {

/// In-order queues of one rank, as CUDA has them. Each kind of communication has its own, and each
/// direction of the pipeline too, so that a message that waits for its peer blocks no other.
enum class Stream {
  Compute,
  Tensor,       ///< Tensor-parallel collectives.
  Context,      ///< All-to-all between the ranks that share a sequence.
  Expert,       ///< Rows on their way to their experts and back.
  SendContext,  ///< Keys and values on their way round them.
  ReceiveContext,
  SendActivation,
  ReceiveActivation,
  SendGradient,
  ReceiveGradient,
  Data,             ///< Gradient and parameter collectives.
  Gather,           ///< Parameters gathered just before they are used (ZeRO stage 3).
  ParameterServer,  ///< Pull and push of a worker.
  Serve,            ///< A server's answers and updates.
  Host              ///< Reading data.
};
inline constexpr int kStreams = 15;
std::string_view stream_name(Stream);

enum class Pass { Load, Forward, Recompute, Backward, WeightGrad, OptimizerStep, Serve };
std::string_view pass_name(Pass);

// ---- buffers -------------------------------------------------------------------------------

/// How many instances of a buffer there are, and so what names one.
enum class BufferScope {
  Run,         ///< One, for the whole run (parameters, gradients, optimizer state).
  Microbatch,  ///< One per microbatch, from the call that first writes it to the one that frees it.
  Call         ///< One per call.
};

enum class BufferKind {
  Parameters,
  Gradients,
  OptimizerState,
  Activations,
  Logits,  ///< The output layer's product, and its gradient in place.
  Workspace,
  Communication,
  Input,
  Statistics
};
std::string_view buffer_kind_name(BufferKind);

/// Storage. Lives from the start of the first instruction that writes it to the end of the one that
/// lists it in `frees`; Run buffers live throughout.
struct Buffer {
  std::string name;
  DType dtype = DType::Float32;
  std::vector<std::int64_t> shape;  ///< Largest shape, where it is known only at run time.
  BufferKind kind = BufferKind::Activations;
  BufferScope scope = BufferScope::Call;

  std::int64_t elements() const;
  Bytes bytes() const;
};

/// `count` elements of a buffer from element `first`. With `slice`, this rank's part of them: the
/// p-th of n equal parts, p and n being its position in and the size of that group.
struct View {
  BufferId buffer;
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::optional<GroupSlot> slice;
};

// ---- instructions --------------------------------------------------------------------------

struct Compute {
  Operator op;
  Work work;
};

enum class CollectiveKind { AllReduce, ReduceScatter, AllGather, Broadcast, AllToAll };
enum class Reduction { Sum, Max };
std::string_view collective_name(CollectiveKind);

/// AllReduce: reads v, writes v (in place). ReduceScatter: reads the whole, writes this rank's
/// slice of it (View::slice). AllGather: reads this rank's slice, writes the whole. Sums are taken
/// in the order of the group's members.
struct Collective {
  CollectiveKind kind = CollectiveKind::AllReduce;
  GroupSlot group;
  Reduction reduction = Reduction::Sum;
  Bytes bytes;  ///< Of the whole buffer on one rank (not the slice, not the sum over ranks).
};

/// Which of the messages between two ranks; the k-th send meets the k-th receive on a channel.
enum class Channel { Activation, Gradient, Context };

struct Send {  ///< reads: the message.
  PeerSlot peer;
  Channel channel = Channel::Activation;
  Bytes bytes;
};
struct Receive {  ///< writes: the message.
  PeerSlot peer;
  Channel channel = Channel::Activation;
  Bytes bytes;
};

// Parameter-server messages. Key k lives on server k mod servers; a message to one server holds the
// keys that live there, ascending. Their number is known only at run time, so it travels first:
//   pull: count I32[1], keys I32[count] ──▶ server;  rows F[count, width] ──▶ worker
//   push: count I32[1], keys I32[count], gradients F[count, width] ──▶ server
// Both are rendezvous as in (5): the k-th Pull of a worker meets its k-th ServePull at each server,
// the k-th Push its k-th ServePush. Sizes for whoever predicts them:
// core/network/parameter_server.h.

/// Worker: sends each server the keys it owns, receives their rows. reads: keys, count.
/// writes: rows F[unique, width], in the order of keys. `servers` is a group slot: the ordered
/// servers.
struct Pull {
  GroupSlot servers;
  int width = 0;
  double expected_keys = 0;  ///< Distinct keys, expected under the tables' skew: for the simulator.
};
/// Worker: sends each server the keys it owns and their gradients. reads: keys, count, gradients.
struct Push {
  GroupSlot servers;
  int width = 0;
  double expected_keys = 0;
};
/// Server: receives the keys of one worker, answers with their rows. reads: the shard's rows.
struct ServePull {
  PeerSlot worker;
  int width = 0;
  double expected_keys = 0;  ///< From that worker to this server.
};
/// Server: receives keys and gradients of one worker. writes: keys I32[count],
/// gradients F[count, width], count I32[1].
struct ServePush {
  PeerSlot worker;
  int width = 0;
  double expected_keys = 0;
};

using Operation =
    std::variant<Compute, Collective, Send, Receive, Pull, Push, ServePull, ServePush>;

/// The name used in traces and reports: the operator's ("linear"), or "all_reduce", "send", "pull".
std::string_view operation_name(const Operation&);

struct Instruction {
  std::string label;  ///< "layers.3.attention.qkv": what it works on.
  Operation operation;
  Stream stream = Stream::Compute;
  Pass pass = Pass::Forward;
  std::vector<View> reads;
  std::vector<View> writes;
  std::vector<BufferId> frees;  ///< Instances that end with this instruction.
  std::vector<int> waits;       ///< Earlier instructions of the same block, on other streams.
};

/// The instructions of one pass of one stage (or the step's end), stored once.
struct Block {
  std::string name;  ///< "forward", "backward", "step".
  std::vector<Instruction> instructions;
};

/// Instruction `instruction` of this call waits for instruction `other` of the earlier call `call`.
struct CallWait {
  int instruction = 0;
  int call = 0;
  int other = 0;
};

struct Call {
  BlockId block;
  std::optional<int> microbatch;
  std::vector<CallWait> waits;
};

// ---- parameters ----------------------------------------------------------------------------

/// Which ranks of a model group count this tensor in the gradient norm, and write it to a file.
enum class Counted {
  Always,               ///< Every rank holds another part.
  FirstTensorPosition,  ///< Replicated over the tensor group: its first rank does.
  Never                 ///< A tied copy; another stage counts it.
};

/// One named tensor within the flat parameter buffer (and, at the same offset, the gradients).
struct ParameterTensor {
  std::string name;  ///< Hugging Face name, "model.layers.0.mlp.up_proj.weight".
  /// Which of this rank's experts it belongs to; the name has "{}" for the model's number of it.
  std::optional<int> expert;
  std::vector<std::int64_t> global_shape;  ///< Of the whole tensor, rows = outputs.
  std::vector<std::int64_t> local_shape;   ///< Of this rank's part.
  std::int64_t offset = 0;                 ///< First element within the parameter buffer.
  std::optional<int> split_dim;            ///< Split over the tensor group along this dimension
                                           ///< (padded up to a multiple of its size).
  /// Where a weights file keeps it: rows file_row .. of the file's tensor `name` (GPT-2 keeps
  /// query, key and value in one), transposed or not. The rows of a tensor are its first dimension
  /// here.
  std::int64_t file_row = 0;
  bool file_transposed = false;
  Counted counted = Counted::Always;
  double initial_stddev =
      0.0;  ///< Normal(0, σ) when there are no initial weights; 0: `initial_value`.
  double initial_value = 0.0;
};

/// A range of the flat buffers.
struct ParameterRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// A range of which a rank holds the part of its position in a group.
struct ShardedRange {
  ParameterRange range;
  std::optional<GroupSlot> group;  ///< Absent: of one rank, which holds all.
};

/// Where a piece of the parameters that is reduced and updated at once begins: among the parameters,
/// in the buffer of gradients, and in the buffer of values.
struct BucketPlace {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t values = 0;
};

struct Parameters {
  std::vector<ParameterTensor> tensors;
  std::vector<BucketPlace> buckets;  ///< In the order of the parameters; of a transformer's stage.
  /// Where values are sharded (ZeRO stage 3): `values` holds, of each of these ranges in turn, only
  /// this rank's equal part (all of it without a group). Empty: nothing is sharded.
  std::vector<ShardedRange> sharded;
  std::int64_t elements = 0;  ///< Of the flat buffer, padded so that every slice is equal.
  /// Of a transformer's stage: the first element of each of its layers, and the end of the last; of
  /// each layer's experts, where it has any.
  std::vector<std::int64_t> layer_bounds, expert_bounds;
  int experts = 0;  ///< Of a layer, on this rank.
  std::optional<BufferId> values;
  std::optional<BufferId> gradients;
  std::vector<BufferId> optimizer_state;
};

// ---- the program ---------------------------------------------------------------------------

/// One lookup per sample: the rows first_row .. first_row + rows − 1 of the embedding.
struct EmbeddingField {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  double zipf_exponent = 0.0;   ///< Skew of the ids; 0 = uniform.
  double initial_stddev = 0.0;  ///< Normal(0, σ) when there are no initial weights.
};

/// The embedding tables of a program as one space of rows, each [embedding dim ; wide weight]. Row
/// r lives on server r mod servers, as that server's row r / servers. Files keep the two parts as
/// "emb.weight" [rows, dim] and "wide.weight" [rows, 1]; wide weights start at 0.
struct Embedding {
  std::vector<EmbeddingField> fields;  ///< By lookup of a sample.
  std::int64_t rows = 0;
  int dim = 0;
  bool wide = false;
  int servers = 1;

  int width() const { return dim + (wide ? 1 : 0); }
};

/// A serving rank's rows and their optimizer state: Run buffers F[rows of one server, width].
struct EmbeddingShard {
  BufferId rows;
  std::optional<BufferId> state;  ///< AdaGrad's sums; absent for Sgd.
};

/// What kind of ranks a group slot or a peer slot of a role stands for (for messages and reports).
enum class GroupKind {
  Tensor,
  Context,
  Expert,  ///< Hold the different experts of a layer.
  Data,
  Sharding,
  ExpertData,  ///< What Data and Sharding are to the parameters of experts.
  ExpertSharding,
  Model,
  World,
  TiedEmbedding,
  Servers
};
std::string_view group_kind_name(GroupKind);

struct Role {
  std::string name;  ///< "stage 3", "worker", "server".
  std::vector<Buffer> buffers;
  Parameters parameters;
  std::vector<Block> blocks;
  std::vector<Call> step;
  std::vector<GroupKind> group_slots;
  int peer_slots = 0;
  std::optional<GroupSlot> tensor_group;   ///< Whose position selects this rank's part of a tensor.
  std::optional<GroupSlot> expert_group;   ///< Whose position selects this rank's experts.
  std::optional<GroupSlot> context_group;  ///< Whose position selects this rank's SequencePart.
  std::optional<BufferId> loss;            ///< F[1] with the step's global loss when the step ends.
  std::optional<BufferId> norm;            ///< F[2] (gradient norm, clip factor).
  std::optional<EmbeddingShard> shard;     ///< Of a server (RankBinding::server says which).

  const Instruction& at(int call, int index) const {
    return blocks[step[static_cast<std::size_t>(call)].block.index()]
        .instructions[static_cast<std::size_t>(index)];
  }
};

struct Group {
  GroupKind kind = GroupKind::World;
  std::vector<Rank> members;  ///< Ordered.
};

struct RankBinding {
  RoleId role;
  std::vector<GroupId> groups;  ///< By GroupSlot.
  std::vector<Rank> peers;      ///< By PeerSlot.
  int stage = 0;                ///< Pipeline stage.
  int data_way = 0;             ///< Which of the data ways (or workers): selects samples.
  std::optional<int> server;    ///< Which of the servers.
};

struct Program {
  std::string plan;  ///< describe(plan).
  std::string model;
  std::vector<Role> roles;
  std::vector<RankBinding> ranks;
  std::vector<Group> groups;
  int microbatches = 0;  ///< Per data way and step (slices, for workers of a parameter server).
  std::optional<Embedding> embedding;

  const Role& role_of(Rank r) const { return roles[ranks[r.index()].role.index()]; }
};

/// Names one executed instruction: of a rank's role, in a step.
struct InstructionRef {
  int step = 0;
  int call = 0;
  int index = 0;
  auto operator<=>(const InstructionRef&) const = default;
};

/// Position of `rank` within `group`.
int position_in(const Group& group, Rank rank);

}  // namespace orrery::core
