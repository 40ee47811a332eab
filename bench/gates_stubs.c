/* gates_stubs.c: subjects that are not measured yet. */
#include "bench/gates.h"

void nst_gates_integer(NstGates *g)
{
    (void)g;
}

void nst_gates_symbolic(NstGates *g)
{
    (void)g;
}

void nst_gates_maps(NstGates *g)
{
    (void)g;
}

void nst_gates_warm(NstGates *g)
{
    (void)g;
}

void nst_gates_compile(NstGates *g)
{
    (void)g;
}

void nst_gates_trees(NstGates *g)
{
    (void)g;
}
