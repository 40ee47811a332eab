/* host_eval.h: host functions for the interpreter. */
#ifndef NST_RUNTIME_HOST_EVAL_H
#define NST_RUNTIME_HOST_EVAL_H

#include "ir/graph.h"

/* Calls the functions of host.def; strings are those of the graph. [borrowed: graph] */
NstHostCall nst_host_for_graph(NstGraph *graph);

#endif
