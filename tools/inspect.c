/* inspect.c: nestor inspect, nestor ops. */
#include <inttypes.h>
#include <string.h>
#include "nestor/inspect.h"
#include "tools/tool.h"

/* --- inspect ----------------------------------------------------------------------------------------------------- */

/* "f32[N, 3, ?, 224]" */
static void print_type(const NstModelPort *port)
{
    printf("%s", port->type);
    if (port->rank < 0) {
        if (port->dtype != NST_DTYPE_NONE) printf(" of any rank");
        return;
    }
    putchar('[');
    for (int axis = 0; axis < port->rank; axis++) {
        if (axis) printf(", ");
        if (port->shape[axis] >= 0)
            printf("%" PRId64, port->shape[axis]);
        else
            printf("%s", port->symbol[axis] ? port->symbol[axis] : "?");
    }
    putchar(']');
}

static void print_ports(const char *title, const NstModelPort *port, uint32_t n)
{
    if (n == 0) return;
    printf("%s\n", title);
    for (uint32_t k = 0; k < n; k++) {
        printf("  %s: ", port[k].name);
        print_type(&port[k]);
        putchar('\n');
    }
}

static void print_info(const NstModelInfo *info)
{
    printf("%s model '%s'", info->format, info->graph);
    if (*info->producer)
        printf(" by %s%s%s", info->producer, *info->producer_version ? " " : "", info->producer_version);
    if (info->ir_version) printf(", IR version %" PRId64, info->ir_version);
    printf("\n%" PRIu64 " nodes, %" PRIu64 " bytes of weights\n", info->nodes, info->weight_bytes);
    if (info->n_opsets) printf("operator sets");
    for (uint32_t k = 0; k < info->n_opsets; k++)
        printf("%s %s %" PRId64, k ? "," : "", info->opsets[k].domain, info->opsets[k].version);
    if (info->n_opsets) putchar('\n');
    print_ports("inputs", info->inputs, info->n_inputs);
    print_ports("initializers that are inputs too", info->overridable, info->n_overridable);
    print_ports("outputs", info->outputs, info->n_outputs);
    printf("operators\n");
    for (uint32_t k = 0; k < info->n_operators; k++) {
        const NstModelOperator *o = &info->operators[k];
        printf("  %6" PRIu64 "  %s%s%s", o->nodes, o->domain, *o->domain ? "." : "", o->name);
        if (o->version) printf(" %" PRId64, o->version);
        if (o->state != NST_OPERATOR_RUNS) printf("  (%s)", nst_operator_state_name(o->state));
        putchar('\n');
    }
    for (uint32_t k = 0; k < info->n_functions; k++) printf("function %s\n", info->functions[k]);
    for (uint32_t k = 0; k < info->n_metadata; k++)
        printf("metadata %s = %s\n", info->metadata[k].key, info->metadata[k].value);
}

static void json_member(const char *name, const char *text)
{
    printf("\"%s\": ", name);
    tool_json_text(stdout, text);
    printf(", ");
}

static void json_ports(const char *name, const NstModelPort *port, uint32_t n)
{
    printf("\"%s\": [", name);
    for (uint32_t k = 0; k < n; k++) {
        printf("%s{", k ? ", " : "");
        json_member("name", port[k].name);
        json_member("type", port[k].type);
        printf("\"shape\": ");
        if (port[k].rank < 0) printf("null");
        for (int axis = 0; axis < port[k].rank; axis++) {
            printf(axis ? ", " : "[");
            if (port[k].shape[axis] >= 0)
                printf("%" PRId64, port[k].shape[axis]);
            else if (port[k].symbol[axis])
                tool_json_text(stdout, port[k].symbol[axis]);
            else
                printf("null");
        }
        printf("%s}", port[k].rank < 0 ? "" : port[k].rank == 0 ? "[]" : "]");
    }
    printf("], ");
}

static void json_info(const NstModelInfo *info)
{
    putchar('{');
    json_member("format", info->format);
    json_member("graph", info->graph);
    json_member("producer", info->producer);
    json_member("producer_version", info->producer_version);
    printf("\"ir_version\": %" PRId64 ", \"model_version\": %" PRId64 ", \"nodes\": %" PRIu64
           ", \"weight_bytes\": %" PRIu64 ", ",
           info->ir_version, info->model_version, info->nodes, info->weight_bytes);
    printf("\"opsets\": {");
    for (uint32_t k = 0; k < info->n_opsets; k++) {
        if (k) printf(", ");
        tool_json_text(stdout, info->opsets[k].domain);
        printf(": %" PRId64, info->opsets[k].version);
    }
    printf("}, ");
    json_ports("inputs", info->inputs, info->n_inputs);
    json_ports("overridable", info->overridable, info->n_overridable);
    json_ports("outputs", info->outputs, info->n_outputs);
    printf("\"operators\": [");
    for (uint32_t k = 0; k < info->n_operators; k++) {
        const NstModelOperator *o = &info->operators[k];
        printf("%s{", k ? ", " : "");
        json_member("domain", o->domain);
        json_member("name", o->name);
        json_member("state", nst_operator_state_name(o->state));
        printf("\"version\": %" PRId64 ", \"nodes\": %" PRIu64 "}", o->version, o->nodes);
    }
    printf("], \"functions\": [");
    for (uint32_t k = 0; k < info->n_functions; k++) {
        if (k) printf(", ");
        tool_json_text(stdout, info->functions[k]);
    }
    printf("], \"metadata\": [");
    for (uint32_t k = 0; k < info->n_metadata; k++) {
        printf(k ? ", [" : "[");
        tool_json_text(stdout, info->metadata[k].key);
        printf(", ");
        tool_json_text(stdout, info->metadata[k].value);
        putchar(']');
    }
    printf("]}\n");
}

int tool_inspect(ToolOptions *options)
{
    ToolOpen open;
    const NstModelInfo *info = NULL;
    int code = tool_open(options, false, &open);
    if (code != 0) return code;
    NstStatus status = nst_model_info(open.model, &info);
    if (status != NST_OK)
        code = tool_fail(status);
    else if (options->json)
        json_info(info);
    else
        print_info(info);
    nst_model_info_free(info);
    tool_close(&open);
    return code;
}

/* --- ops --------------------------------------------------------------------------------------------------------- */

enum { COLUMNS = 7 };

/* Cuts a line at its tabs; returns the next line. */
static char *take_line(char *line, char *cell[COLUMNS])
{
    char *end = strchr(line, '\n');
    if (end) *end = '\0';
    for (int k = 0; k < COLUMNS; k++) {
        char *tab = strchr(line, '\t');
        cell[k] = line;
        if (tab) *tab = '\0';
        line = tab ? tab + 1 : line + strlen(line);
    }
    return end ? end + 1 : NULL;
}

static void json_rows(char *text)
{
    char *head[COLUMNS], *cell[COLUMNS];
    bool first = true;
    char *line = take_line(text, head);
    putchar('[');
    while (line && *line) {
        line = take_line(line, cell);
        printf("%s{", first ? "" : ",\n ");
        first = false;
        for (int k = 0; k < COLUMNS; k++) {
            printf("%s\"%s\": ", k ? ", " : "", head[k]);
            if (strcmp(head[k], "version") == 0)
                printf("%s", cell[k]);
            else
                tool_json_text(stdout, cell[k]);
        }
        putchar('}');
    }
    printf("]\n");
}

static void print_rows(char *text)
{
    char *cell[COLUMNS];
    char *line = take_line(text, cell);
    while (line && *line) {
        line = take_line(line, cell);
        printf("%-20s %-30s %3s  %-8s %s\n", cell[0], cell[1], cell[2], cell[3], cell[4]);
    }
}

int tool_ops(ToolOptions *options)
{
    NstEngine *engine;
    char *text = NULL;
    NstStatus status = nst_engine_new(&options->engine, &engine);
    if (status != NST_OK) return tool_fail(status);
    status = nst_operator_table(engine, &text);
    int code = status == NST_OK ? 0 : tool_fail(status);
    if (text && options->tsv)
        fputs(text, stdout);
    else if (text && options->json)
        json_rows(text);
    else if (text)
        print_rows(text);
    nst_text_free(text);
    nst_engine_free(engine);
    return code;
}
