/* vec.h: typed growable arrays in an arena.  NST_VEC(T) v = {0}; nst_vec_push(arena, &v, item); v.at[i], v.n.
 * Growth moves the items: keep no pointer into a vec across a push. */
#ifndef NST_IR_BASE_VEC_H
#define NST_IR_BASE_VEC_H

#include <string.h>
#include "ir/base/arena.h"

#define NST_VEC(Type)                                                                                                  \
    struct {                                                                                                           \
        Type *at;                                                                                                      \
        uint32_t n, cap;                                                                                               \
    }

/* Grows *at to hold at least `need` items of `size` bytes; returns the new pointer and sets *cap. */
void *nst_vec_grow(NstArena *arena, void *at, uint32_t n, uint32_t *cap, uint32_t need, size_t size);

#define nst_vec_reserve(arena, v, need)                                                                                \
    ((v)->cap >= (need)                                                                                                \
         ? (void)0                                                                                                     \
         : (void)((v)->at = nst_vec_grow((arena), (v)->at, (v)->n, &(v)->cap, (need), sizeof *(v)->at)))

/* Appends item. */
#define nst_vec_push(arena, v, item) (nst_vec_reserve((arena), (v), (v)->n + 1), (void)((v)->at[(v)->n++] = (item)))

/* Removes and gives the last item; the vec must not be empty. */
#define nst_vec_pop(v) ((v)->at[--(v)->n])

#endif
