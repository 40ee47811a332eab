/* main.c: an anchor for the test support library; Criterion brings main() itself. */
typedef int nst_test_support_is_a_library;
