/* session.h: a model made ready to run, and its runs.
 *
 * A session has one compiled plan for all sizes of its open dims, and an exact one when shapes are declared.  Where open sizes
 * decide about the model's structure (the rank of what a branch gives) no plan serves all of them: then the first run with a set
 * of shapes gets an exact plan for it, which costs what compiling costs and is found in the caches from then on.  A session
 * keeps the 8 plans it used last; calls are the same, but outputs are told as the model declares them.  Plans come
 * from the caches of the engine or are compiled; compiling loads libnestor-compiler from beside this library.  Memory
 * that LLVM cannot get while compiling ends the process; all else is a status. */
#ifndef NESTOR_SESSION_H
#define NESTOR_SESSION_H

#include "nestor/model.h"
#include "nestor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct NstSession NstSession;

/* The shape an input will have in every run: sizes < 0 stay open.
 * An input "s" that is a sequence or an optional must be declared by its elements: "s[0]", "s[1]" and so on are inputs of
 * the session then; "s[]" declares that it has none (an optional sequence: that there is none).  An output "t" that is one
 * becomes outputs "t[0]", "t[1]".. of the session. */
typedef struct NstInputShape {
    const char *name;
    int32_t rank;
    int64_t shape[NST_TENSOR_MAX_RANK];
} NstInputShape;

/* All zero = the defaults. */
typedef struct NstSessionOptions {
    int32_t strict;          /* no approximate optimisations */
    int32_t bounds_checks;   /* compiled code checks every access; slow, to find faults of the compiler */
    int32_t fail_on_compile; /* what is in no cache is NST_E_NOT_FOUND instead of compiled */
    int32_t interpret;       /* runs by the reference interpreter: very slow, the same results; cancelled only
                                before it begins */
    const char *passes_off;  /* names of passes to leave out, separated by commas; NULL = none */
    const NstInputShape *shapes;
    uint32_t n_shapes;
    /* Inputs that will have this value in every run, by name or (name NULL) by position; dense, read when the session is made.  The plan is made for the
     * value where the structure of the model depends on it (axes, a permutation, the length of a shape), and then a run
     * with another one is NST_E_INVALID; where it does not, the value is not looked at.  On strings no structure depends. */
    const NstNamedTensor *values;
    uint32_t n_values;
    /* Initializers that a run may be given, by name: they must be inputs of the graph too (nst_model_info lists them), and
     * then are inputs like the others.  All others keep the values they have in the model. */
    const char *const *overridable;
    uint32_t n_overridable;
} NstSessionOptions;

/* Makes a model ready.  Owns: the caller ends it with nst_session_free; it keeps its model and engine until then.
 * Errors: NST_E_PARSE, NST_E_MODEL, NST_E_SHAPE, NST_E_TYPE, NST_E_UNSUPPORTED, NST_E_LIMIT for the model;
 * NST_E_COMPILER when the compiler library cannot be used; NST_E_NOT_FOUND under fail_on_compile. */
NST_API NstStatus nst_session_new(NstModel *model, const NstSessionOptions *options,
                                  NstSession **session) NST_MUST_CHECK;

/* Ends a session that no run uses.  NULL is allowed. */
NST_API void nst_session_free(NstSession *session);

/* An input or output.  Sizes of axes that are open are -1, and symbol[axis] then says what they are ("n", "2*n + 1").
 * Outputs of a session with plans for the shapes of runs have rank -1 or dtype NST_DTYPE_NONE where the model does not say. */
typedef struct NstPort {
    const char *name;
    NstDtype dtype;
    int32_t rank;
    int64_t shape[NST_TENSOR_MAX_RANK];
    const char *symbol[NST_TENSOR_MAX_RANK]; /* NULL where the size is known */
} NstPort;

NST_API uint32_t nst_session_input_count(const NstSession *session);
NST_API uint32_t nst_session_output_count(const NstSession *session);
/* The facts of an input or output; texts live as long as the session.  Errors: NST_E_NOT_FOUND past the last. */
NST_API NstStatus nst_session_input(const NstSession *session, uint32_t index, NstPort *port) NST_MUST_CHECK;
NST_API NstStatus nst_session_output(const NstSession *session, uint32_t index, NstPort *port) NST_MUST_CHECK;

typedef struct NstProfile NstProfile;

/* All zero = the defaults. */
typedef struct NstRunOptions {
    const int32_t *cancel; /* the run stops soon after nst_cancel on it; NULL = never */
    NstProfile *profile;   /* times are added to it; NULL = not measured; one run at a time */
} NstRunOptions;

/* One run.  inputs: every input once, by name or (name NULL) by position.  outputs: those wanted, by name or position;
 * see NstTensor for whose memory they are in.  On failure no output has memory of the engine.
 * Errors: NST_E_NOT_FOUND for an unknown name; NST_E_INVALID, NST_E_TYPE, NST_E_SHAPE for tensors that do not fit;
 * NST_E_INDEX, NST_E_ASSERT, NST_E_CANCELLED, NST_E_NOMEM while running; the errors of nst_session_new where a plan is made for
 * the shapes of the run, or for the first whose shapes are not the declared ones.
 * Threads: any number of runs of one session at once; results do not depend on it, nor on the number of threads. */
NST_API NstStatus nst_session_run(NstSession *session, const NstNamedTensor *inputs, uint32_t n_inputs,
                                  NstNamedTensor *outputs, uint32_t n_outputs,
                                  const NstRunOptions *options) NST_MUST_CHECK;

/* Sets a cancel flag, from any thread or a signal handler. */
NST_API void nst_cancel(int32_t *flag);

/* Facts of the plan in use (the exact one if shapes were declared, that of the last run if runs have plans of their own). */
typedef struct NstSessionFacts {
    uint32_t kernels, steps;
    uint64_t code_bytes, constant_bytes;
    uint64_t arena_bytes; /* of the largest run so far */
    uint64_t run_states;  /* runs there were at once, at most */
    uint64_t compile_ns;  /* 0 when the plan came from a cache */
    uint32_t from_cache;  /* plans that came from a cache */
    uint32_t compiled;    /* plans that were compiled */
} NstSessionFacts;
NST_API void nst_session_facts(NstSession *session, NstSessionFacts *facts);

/* Times of the steps of a session's plan; where runs have plans of their own, of the plan of the first run that it measures, and
 * there are no steps before.  Owns: the caller ends it with nst_profile_free, before the session.
 * Errors: NST_E_NOMEM. */
NST_API NstStatus nst_profile_new(NstSession *session, NstProfile **profile) NST_MUST_CHECK;
NST_API void nst_profile_free(NstProfile *profile);

typedef struct NstProfileStep {
    const char *name;      /* of the kernel; "size", "check", "if", "loop" or a function's for steps that are none */
    const char *origin;    /* the nodes of the model it came from; may be NULL */
    const char *not_fused; /* why it was not fused with the next one; may be NULL */
    uint64_t ns;           /* over all runs profiled */
    uint64_t
        operations; /* likewise: 2 for each multiply-add of a matrix product or convolution, padding included, at the
                              sizes of the run; nothing else counts, nor what is inside of an if or a loop */
} NstProfileStep;
NST_API uint32_t nst_profile_step_count(const NstProfile *profile);
NST_API uint64_t nst_profile_runs(const NstProfile *profile);
/* Errors: NST_E_NOT_FOUND past the last step. */
NST_API NstStatus nst_profile_step(const NstProfile *profile, uint32_t index, NstProfileStep *step) NST_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
