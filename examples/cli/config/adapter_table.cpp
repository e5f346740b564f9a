#include "cli/config/adapter_table.h"

#include <limits>

namespace keel_cli {
namespace {

using enum OptionType;

constexpr const char* kRanks =
    "ranks are started by keel launch -n N -- keel train: drop the option";
constexpr const char* kOneProcess =
    "one process has no collectives, and ranks of keel launch plan theirs by themselves";
constexpr const char* kOneDevice =
    "each rank of keel launch has one device, and reads its part of the data itself";
constexpr const char* kParts = "its parts are options of their own: give these";
constexpr const char* kCompiler =
    "is about the real device's op compiler, which a simulated one has not";
constexpr const char* kMemory =
    "memory is planned by the step: what it needs, and no more, is reserved once";
constexpr const char* kEverySetting = "results have the same bits in every run";
constexpr const char* kShapes =
    "a launch of the sunk loop has batches of one shape, so train each shape by itself; in C++ a "
    "keel::Session compiles for each";
constexpr const char* kAllSteps = "--metrics FILE has every step at any loop size";
constexpr const char* kPasses = "its passes are those of another compiler";
constexpr const char* kOffOrOn = "[0, 1]";
constexpr const char* kWaiting =
    "no op of a simulated device hangs, and a training that waits for data goes on when they come";

// Sorted by what they are about.
constexpr AdapterOption kOptions[] = {
    // The loop and its data.
    {.name = "iterations_per_loop", .type = kInteger, .least = 1, .flag = "loop-size"},
    {.name = "enable_data_pre_proc",
     .type = kBoolean,
     .flag = "data-sink",
     .harmless = "true",
     .when_true = "on",
     .when_false = "off"},
    {.name = "dynamic_input", .type = kBoolean, .harmless = "false", .why = kShapes},
    {.name = "dynamic_dims", .type = kText, .harmless = "\"\"", .why = kShapes},
    {.name = "dynamic_node_type", .type = kAny, .harmless = "null", .why = kShapes},
    {.name = "input_shape", .type = kText, .harmless = "\"\"", .why = kShapes},
    {.name = "dynamic_input_config", .harmless = "null", .why = kParts},
    {.name = "multi_branches_config", .harmless = "null", .why = kParts},
    {.name = "dynamic_graph_execute_mode",
     .type = kText,
     .choices = R"(["lazy_recompile", "dynamic_execute"])",
     .why = "it is about dynamic_input"},
    {.name = "dynamic_inputs_shape_range", .type = kText, .why = "it is about dynamic_input"},
    {.name = "insert_op_file",
     .type = kText,
     .harmless = "\"\"",
     .why = "images are prepared by the data pipeline"},
    {.name = "op_execute_timeout", .type = kInteger, .why = kWaiting},
    {.name = "op_wait_timeout", .type = kInteger, .why = kWaiting},
    {.name = "stream_sync_timeout", .type = kInteger, .least = -1, .why = kWaiting},
    {.name = "event_sync_timeout", .type = kInteger, .least = -1, .why = kWaiting},

    // Places.
    {.name = "session_device_id", .type = kInteger, .flag = "device-id"},
    {.name = "device_id", .type = kInteger, .flag = "device-id"},
    {.name = "mix_compile_mode",
     .type = kBoolean,
     .flag = "placement",
     .harmless = "false",
     .when_true = "mixed",
     .when_false = "full"},
    {.name = "use_off_line",
     .type = kBoolean,
     .harmless = "true",
     .why = "a training on the host is --backend cpu"},
    {.name = "variable_placement",
     .type = kText,
     .choices = R"(["Device", "Host"])",
     .harmless = "\"Device\"",
     .why = "states live on the device"},
    {.name = "in_out_pair",
     .harmless = "null",
     .why = "the placement policy mixed finds itself what the device lacks"},
    {.name = "in_out_pair_flag", .type = kBoolean, .why = "it is about in_out_pair"},
    {.name = "local_rank_id", .type = kInteger, .least = -1, .harmless = "-1", .why = kOneDevice},
    {.name = "local_device_list", .type = kText, .harmless = "\"\"", .why = kOneDevice},
    {.name = "graph_run_mode",
     .type = kInteger,
     .choices = kOffOrOn,
     .harmless = "1",
     .why = "for inference there are keel eval and keel predict"},
    {.name = "session_config", .harmless = "null", .why = kParts},
    {.name = "experimental_config", .harmless = "null", .why = kParts},
    {.name = "experimental", .harmless = "null", .why = kParts},

    // Precision.
    {.name = "precision_mode", .type = kText, .flag = "precision-mode"},
    {.name = "precision_mode_v2", .type = kText, .flag = "precision-mode-v2"},
    {.name = "modify_mixlist", .type = kText, .flag = "modify-mixlist"},
    {.name = "customize_dtypes", .type = kText, .flag = "customize-dtypes"},
    {.name = "experimental_accelerate_train_mode", .type = kText, .flag = "accelerate-train-mode"},
    {.name = "accelerate_train_mode", .type = kText, .flag = "accelerate-train-mode"},
    {.name = "deterministic", .type = kInteger, .choices = kOffOrOn, .why = kEverySetting},
    {.name = "tf_random_seed",
     .type = kInteger,
     .most = std::numeric_limits<int64_t>::max(),
     .flag = "seed",
     .why = "other numbers than TensorFlow draws"},

    // Profiles and dumps.
    {.name = "profiling_mode", .type = kBoolean, .flag = "profiling-mode"},
    {.name = "profiling_options",
     .type = kTextOrObject,
     .flag = "profiling-options",
     .needs = "profiling_mode",
     .or_needs = "enable_profiling"},
    {.name = "enable_profiling", .type = kBoolean, .flag = "profiling-mode"},
    {.name = "enable_options", .harmless = "null", .why = "profiling_options has all of it"},
    {.name = "profiling_config", .harmless = "null", .why = kParts},
    {.name = "enable_dump", .type = kBoolean, .flag = "enable-dump", .harmless = "false"},
    {.name = "dump_config", .harmless = "null", .why = kParts},
    {.name = "enable_dump_debug",
     .type = kBoolean,
     .flag = "enable-dump-debug",
     .harmless = "false"},
    {.name = "dump_path",
     .type = kText,
     .flag = "dump-path",
     .needs = "enable_dump",
     .or_needs = "enable_dump_debug"},
    {.name = "dump_step",
     .type = kText,
     .flag = "dump-step",
     .why = "steps count from 1",
     .needs = "enable_dump"},
    {.name = "dump_mode",
     .type = kText,
     .choices = R"(["input", "output", "all"])",
     .flag = "dump-mode",
     .needs = "enable_dump"},
    {.name = "dump_layer",
     .type = kText,
     .flag = "dump-layer",
     .why = "names of the nodes as Keel has them",
     .needs = "enable_dump"},
    {.name = "dump_data",
     .type = kText,
     .choices = R"(["tensor", "stats"])",
     .flag = "dump-data",
     .needs = "enable_dump"},
    {.name = "dump_debug_mode",
     .type = kText,
     .choices = R"(["aicore_overflow", "atomic_overflow", "all"])",
     .flag = "dump-debug-mode",
     .needs = "enable_dump_debug"},
    {.name = "enable_exception_dump",
     .type = kInteger,
     .choices = "[0, 1, 2]",
     .harmless = "0",
     .why = "--check-numerics and --enable-dump-debug name the op that went wrong"},

    // Files of a training.
    {.name = "model_dir",
     .type = kText,
     .flag = "checkpoint",
     .why = "a second run goes on from there with --resume alone"},
    {.name = "save_checkpoints_steps", .type = kInteger, .least = 1, .flag = "save-every"},
    {.name = "save_checkpoints_secs", .type = kNumber, .flag = "save-every", .unit = "s"},
    {.name = "keep_checkpoint_max", .type = kInteger, .flag = "keep"},
    {.name = "keep_checkpoint_every_n_hours",
     .type = kNumber,
     .why =
         "the newest files stay, as many as --keep says, and the best ones, as --keep-best says"},
    {.name = "save_summary_steps", .type = kInteger, .why = kAllSteps},
    {.name = "log_step_count_steps", .type = kInteger, .why = kAllSteps},

    // The real compiler and its device.
    {.name = "op_debug_level", .type = kInteger, .choices = "[0, 1, 2, 3, 4]", .why = kCompiler},
    {.name = "debug_dir", .type = kText, .why = kCompiler},
    {.name = "op_compiler_cache_mode",
     .type = kText,
     .choices = R"(["disable", "enable", "force"])",
     .why = kCompiler},
    {.name = "op_compiler_cache_dir", .type = kText, .why = kCompiler},
    {.name = "op_select_implmode",
     .type = kText,
     .choices =
         R"(["high_precision", "high_performance", "high_precision_for_all", "high_performance_for_all"])",
     .why = kCompiler},
    {.name = "optypelist_for_implmode", .type = kText, .why = kCompiler},
    {.name = "buffer_optimize",
     .type = kText,
     .choices = R"(["l1_optimize", "l2_optimize", "off_optimize"])",
     .why = kCompiler},
    {.name = "enable_small_channel", .type = kInteger, .choices = kOffOrOn, .why = kCompiler},
    {.name = "jit_compile", .why = kCompiler},
    {.name = "aoe_mode", .type = kText, .choices = R"(["1", "2", "4"])", .why = kCompiler},
    {.name = "work_path", .type = kText, .why = kCompiler},
    {.name = "fusion_switch_file", .type = kText, .harmless = "\"\"", .why = kPasses},
    {.name = "enable_scope_fusion_passes", .type = kText, .why = kPasses},
    {.name = "oo_level", .type = kText, .why = kPasses},
    {.name = "oo_constant_folding", .type = kBoolean, .why = kPasses},
    {.name = "oo_dead_code_elimination", .type = kBoolean, .why = kPasses},
    {.name = "topo_sorting_mode", .why = kPasses},
    {.name = "enable_graph_parallel", .type = kBoolean, .why = kPasses},
    {.name = "graph_parallel_option_path", .type = kText, .why = kPasses},
    {.name = "op_precision_mode", .type = kText, .why = kCompiler},
    {.name = "op_debug_config", .type = kText, .why = kCompiler},
    {.name = "enable_compress_weight", .type = kBoolean, .why = kCompiler},
    {.name = "compress_weight_conf", .type = kText, .why = kCompiler},
    {.name = "quant_dumpable", .type = kText, .why = kCompiler},
    {.name = "aicore_num", .type = kText, .why = kCompiler},
    {.name = "core_type", .type = kText, .why = kCompiler},
    {.name = "es_cluster_config", .type = kText, .why = kCompiler},
    {.name = "aoe_config", .harmless = "null", .why = kParts},
    {.name = "auto_tune_mode", .type = kText, .why = kCompiler},
    {.name = "op_tune_mode", .type = kText, .why = kCompiler},
    {.name = "op_tune_list", .type = kText, .why = kCompiler},
    {.name = "mstune_mode", .type = kText, .why = kCompiler},
    {.name = "tune_device_ids", .type = kText, .why = kCompiler},
    {.name = "distribute_config", .type = kText, .why = kCompiler},
    {.name = "graph_memory_max_size", .why = kMemory},
    {.name = "variable_memory_max_size", .why = kMemory},
    {.name = "static_memory_policy", .why = kMemory},
    {.name = "memory_optimization", .type = kBoolean, .why = kMemory},
    {.name = "memory_config", .harmless = "null", .why = kParts},
    {.name = "memory_optimization_policy", .type = kText, .why = kMemory},
    {.name = "atomic_clean_policy", .type = kInteger, .choices = kOffOrOn, .why = kMemory},
    {.name = "graph_memory_optimize_config", .why = kMemory},
    {.name = "variable_format_optimize", .type = kBoolean, .why = kMemory},
    {.name = "external_weight", .type = kBoolean, .why = kMemory},
    {.name = "input_fusion_size", .type = kInteger, .why = kMemory},
    {.name = "stream_max_parallel_num", .type = kText, .why = "one stream runs a step"},

    // Other ranks.
    {.name = "distribute", .harmless = "null", .why = kRanks},
    {.name = "train_distribute", .harmless = "null", .why = kRanks},
    {.name = "eval_distribute", .harmless = "null", .why = kRanks},
    {.name = "horovod_mode", .type = kBoolean, .harmless = "false", .why = kRanks},
    {.name = "hcom_parallel", .type = kBoolean, .why = kOneProcess},
    {.name = "hcom_multi_mode", .type = kBoolean, .why = kOneProcess},
    {.name = "is_tailing_optimization", .type = kBoolean, .why = kOneProcess},
    {.name = "all_reduce_fusion_config",
     .type = kText,
     .why = "keel train plans its buckets of gradients itself; in C++ "
            "keel::DataParallelOptions::bucket_bytes says how large they are"},
    {.name = "hccl_timeout",
     .type = kInteger,
     .why = "HCCL_EXEC_TIMEOUT, a variable of the environment, bounds each wait of a rank"},
};

constexpr AdapterConflict kConflicts[] = {
    {"iterations_per_loop", "enable_data_pre_proc", "false",
     "a loop on the device takes its batches from the device queue"},
    {"iterations_per_loop", "mix_compile_mode", "true",
     "the adapter sinks no step with parts on the host; Keel does where they run in the launch, by "
     "--placement mixed and --loop-size"},
    {"iterations_per_loop", "dynamic_input", "true",
     "a loop on the device has batches of one shape"},
    {"save_checkpoints_steps", "save_checkpoints_secs", nullptr, "they say it twice"},
    {"session_device_id", "device_id", nullptr, "they say it twice"},
    {"profiling_mode", "enable_profiling", nullptr, "they say it twice"},
    {"experimental_accelerate_train_mode", "accelerate_train_mode", nullptr, "they say it twice"},
};

}  // namespace

std::span<const AdapterOption> adapter_options() { return kOptions; }
std::span<const AdapterConflict> adapter_conflicts() { return kConflicts; }

}  // namespace keel_cli
