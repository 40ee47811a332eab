/* host_eval.h: host functions for the interpreter. */
#ifndef NST_RUNTIME_HOST_EVAL_H
#define NST_RUNTIME_HOST_EVAL_H

#include "ir/custom.h"
#include "ir/graph.h"

/* Whose nodes are evaluated, and the operators that they may name. */
typedef struct NstHostGraph {
    NstGraph *graph;
    const NstCustom *operators;
} NstHostGraph;

/* Calls the functions of host.def and registered operators; strings are those of the graph. [borrowed: owner] */
NstHostCall nst_host_for_graph(NstHostGraph *owner);

#endif
