/*
 * A stand-in for libnrt, the Neuron runtime, on a machine without Neuron cores.
 *
 * It has the functions of AWS's public headers (aws-neuron-sdk, src/libnrt/include/nrt) that the nrt device uses, keeps
 * tensors in host memory, and refuses and notes every call that breaks what those headers ask for: handles of another
 * kind or freed, unknown names, wrong sizes, tensors of another core, tensors freed before the set they are in, calls
 * outside of nrt_init and nrt_close. Objects are never recycled, so that a freed handle is always recognised.
 *
 * Functions with "standin" in their names are for tests: they set what programs do, which call fails and with what
 * status, and tell what was noted and what is allocated.
 */

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int NRT_STATUS;

enum {
    NRT_SUCCESS = 0,
    NRT_FAILURE = 1,
    NRT_INVALID = 2,
    NRT_INVALID_HANDLE = 3,
    NRT_RESOURCE = 4,
    NRT_LOAD_NOT_ENOUGH_NC = 9,
    NRT_UNINITIALIZED = 13,
    NRT_CLOSED = 14,
};

enum { INPUT = 0, OUTPUT = 1 };
enum { DEVICE = 0, HOST = 1 };
enum { NAME_BYTES = 256 };

typedef enum { TENSOR, SET, MODEL, KINDS } kind_t;

static const char *const KIND_NAMES[KINDS] = {"tensor", "tensor set", "model"};

typedef struct {
    char name[NAME_BYTES];
    int usage;
    size_t size;
    int dtype;
    uint32_t *shape;
    uint32_t ndim;
} nrt_tensor_info_t;

typedef struct {
    uint64_t tensor_count;
    nrt_tensor_info_t tensor_array[];
} nrt_tensor_info_array_t;

typedef struct {
    uint32_t family;
    uint32_t size;
    char arch_name[16];
    char device_revision[8];
} nrt_instance_info_t;

typedef struct {
    uint64_t rt_major, rt_minor, rt_patch, rt_maintenance;
    char rt_detail[128];
    char git_hash[64];
} nrt_version_t;

typedef struct object object_t;

typedef struct entry {
    char name[NAME_BYTES];
    object_t *tensor;
    struct entry *next;
} entry_t;

struct object {
    kind_t kind;
    int alive;
    int core;                    /* of a tensor or model */
    int users;                   /* of a tensor: sets and slices that need it */
    char name[NAME_BYTES];       /* of a tensor */
    uint8_t *data;               /* of a tensor */
    size_t size;                 /* of a tensor */
    object_t *source;            /* of a slice */
    entry_t *entries;            /* of a set */
    nrt_tensor_info_t *declared; /* of a model */
    uint64_t declared_count;     /* of a model */
    int number;                  /* of a model */
    object_t *next;
};

typedef NRT_STATUS (*load_t)(int model, const void *neff, size_t size);
typedef NRT_STATUS (*execute_t)(int model, void **inputs, void **outputs);

static object_t *objects;
static enum { NEW, OPEN, CLOSED } state = NEW;
static uint32_t total_cores = 4, family = 5, core_size = 2;
static load_t load_program;
static execute_t execute_program;
static int models;
static object_t *loading;
static char failing[64];
static int failing_status, failing_after;
static char notes[1 << 16];

static void note(const char *format, ...) {
    size_t used = strlen(notes);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(notes + used, sizeof notes - used - 1, format, arguments);
    va_end(arguments);
    strcat(notes, "\n");
}

/* The status of a call that must not go on: the one it was told to fail with, or that of a closed runtime. */
static NRT_STATUS enter(const char *function) {
    if (strcmp(failing, function) == 0 && failing_after-- == 0) {
        failing[0] = 0;
        return failing_status;
    }
    if (state == OPEN) return NRT_SUCCESS;
    note("%s %s", function, state == NEW ? "before nrt_init" : "after nrt_close");
    return state == NEW ? NRT_UNINITIALIZED : NRT_CLOSED;
}

static object_t *find(const void *handle, kind_t kind, const char *function) {
    for (object_t *one = objects; one; one = one->next) {
        if (one != handle) continue;
        if (one->kind == kind && one->alive) return one;
        note("%s: a %s%s where a %s is needed", function, one->alive ? "" : "freed ", KIND_NAMES[one->kind],
             KIND_NAMES[kind]);
        return NULL;
    }
    note("%s: a handle of nobody where a %s is needed", function, KIND_NAMES[kind]);
    return NULL;
}

static object_t *make(kind_t kind) {
    object_t *made = calloc(1, sizeof *made);
    made->kind = kind;
    made->alive = 1;
    made->next = objects;
    return objects = made;
}

static void name_it(char *to, const char *name) {
    snprintf(to, NAME_BYTES, "%s", name ? name : "");
}

static uint32_t visible_cores(void) {
    const char *text = getenv("NEURON_RT_VISIBLE_CORES");
    if (!text || !*text) return total_cores;
    uint32_t count = 0;
    while (*text) {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        count += (uint32_t)(last - first + 1);
        text = *end ? end + 1 : end;
    }
    return count;
}

/* ---- the runtime ---- */

NRT_STATUS nrt_init(int framework, const char *framework_version, const char *fal_version) {
    if (strcmp(failing, "nrt_init") == 0) {
        failing[0] = 0;
        return failing_status;
    }
    if (state == OPEN) {
        note("nrt_init: initialised twice");
        return NRT_FAILURE;
    }
    if (framework < 1 || !framework_version || !fal_version) return NRT_INVALID;
    state = OPEN;
    return NRT_SUCCESS;
}

static void release(object_t *one) {
    one->alive = 0;
    if (one->kind == TENSOR && !one->source) free(one->data);
    one->data = NULL;
    for (entry_t *entry = one->entries; entry;) {
        entry_t *next = entry->next;
        entry->tensor->users--;
        free(entry);
        entry = next;
    }
    one->entries = NULL;
    if (one->source) one->source->users--;
    free(one->declared);
    one->declared = NULL;
}

void nrt_close(void) {
    if (state != OPEN) note("nrt_close: not open");
    for (object_t *one = objects; one; one = one->next) {
        if (!one->alive) continue;
        note("nrt_close: a %s '%s' is left", KIND_NAMES[one->kind], one->name);
        release(one);
    }
    state = CLOSED;
}

NRT_STATUS nrt_get_version(nrt_version_t *version, size_t size) {
    nrt_version_t ours = {.rt_major = 2, .rt_minor = 0};
    snprintf(ours.rt_detail, sizeof ours.rt_detail, "stand-in for libnrt");
    memcpy(version, &ours, size < sizeof ours ? size : sizeof ours);
    return NRT_SUCCESS;
}

NRT_STATUS nrt_get_instance_info(nrt_instance_info_t *info, size_t size) {
    NRT_STATUS status = enter("nrt_get_instance_info");
    if (status || size < sizeof *info) return status ? status : NRT_INVALID;
    *info = (nrt_instance_info_t){.family = family, .arch_name = "standin"};
    return NRT_SUCCESS;
}

NRT_STATUS nec_get_virtual_core_size(uint32_t *size) {
    NRT_STATUS status = enter("nec_get_virtual_core_size");
    if (!status) *size = core_size;
    return status;
}

NRT_STATUS nrt_get_visible_vnc_count(uint32_t *count) {
    *count = visible_cores();
    return NRT_SUCCESS;
}

/* ---- tensors ---- */

NRT_STATUS nrt_tensor_allocate(int placement, int core, size_t size, const char *name, void **tensor) {
    NRT_STATUS status = enter("nrt_tensor_allocate");
    if (status) return status;
    if (placement != DEVICE || core < 0 || core >= (int)visible_cores() || size == 0) {
        note("nrt_tensor_allocate: placement %d, core %d, %zu bytes", placement, core, size);
        return NRT_INVALID;
    }
    object_t *made = make(TENSOR);
    made->core = core;
    made->size = size;
    made->data = malloc(size);
    memset(made->data, 0xA5, size);
    name_it(made->name, name);
    *tensor = made;
    return NRT_SUCCESS;
}

NRT_STATUS nrt_tensor_allocate_slice(const void *source, size_t offset, size_t size, const char *name, void **tensor) {
    NRT_STATUS status = enter("nrt_tensor_allocate_slice");
    if (status) return status;
    object_t *from = find(source, TENSOR, "nrt_tensor_allocate_slice");
    if (!from) return NRT_INVALID_HANDLE;
    if (size == 0 || offset > from->size || size > from->size - offset) {
        note("nrt_tensor_allocate_slice: %zu bytes from %zu of %zu", size, offset, from->size);
        return NRT_INVALID;
    }
    object_t *made = make(TENSOR);
    made->core = from->core;
    made->size = size;
    made->data = from->data + offset;
    made->source = from;
    from->users++;
    name_it(made->name, name);
    *tensor = made;
    return NRT_SUCCESS;
}

void nrt_tensor_free(void **tensor) {
    if (enter("nrt_tensor_free")) return;
    object_t *one = find(*tensor, TENSOR, "nrt_tensor_free");
    if (!one) return;
    if (one->users) note("nrt_tensor_free: '%s' is still in %d sets and slices", one->name, one->users);
    release(one);
    *tensor = NULL;
}

static NRT_STATUS move(const char *function, const void *tensor, void *to, const void *from, size_t offset,
                       size_t size) {
    NRT_STATUS status = enter(function);
    if (status) return status;
    object_t *one = find(tensor, TENSOR, function);
    if (!one) return NRT_INVALID_HANDLE;
    if (offset > one->size || size > one->size - offset) {
        note("%s: %zu bytes from %zu of %zu in '%s'", function, size, offset, one->size, one->name);
        return NRT_INVALID;
    }
    memcpy(to ? to : one->data + offset, from ? from : one->data + offset, size);
    return NRT_SUCCESS;
}

NRT_STATUS nrt_tensor_read(const void *tensor, void *buffer, size_t offset, size_t size) {
    return move("nrt_tensor_read", tensor, buffer, NULL, offset, size);
}

NRT_STATUS nrt_tensor_write(void *tensor, const void *buffer, size_t offset, size_t size) {
    return move("nrt_tensor_write", tensor, NULL, buffer, offset, size);
}

/* ---- tensor sets ---- */

NRT_STATUS nrt_allocate_tensor_set(void **set) {
    NRT_STATUS status = enter("nrt_allocate_tensor_set");
    if (!status) *set = make(SET);
    return status;
}

void nrt_destroy_tensor_set(void **set) {
    if (enter("nrt_destroy_tensor_set")) return;
    object_t *one = find(*set, SET, "nrt_destroy_tensor_set");
    if (!one) return;
    release(one);
    *set = NULL;
}

static entry_t *entry_of(object_t *set, const char *name) {
    for (entry_t *entry = set->entries; entry; entry = entry->next)
        if (strcmp(entry->name, name) == 0) return entry;
    return NULL;
}

NRT_STATUS nrt_add_tensor_to_tensor_set(void *set, const char *name, void *tensor) {
    NRT_STATUS status = enter("nrt_add_tensor_to_tensor_set");
    if (status) return status;
    object_t *to = find(set, SET, "nrt_add_tensor_to_tensor_set");
    object_t *one = find(tensor, TENSOR, "nrt_add_tensor_to_tensor_set");
    if (!to || !one) return NRT_INVALID_HANDLE;
    entry_t *entry = entry_of(to, name);
    if (entry) {
        entry->tensor->users--;
    } else {
        entry = calloc(1, sizeof *entry);
        name_it(entry->name, name);
        entry->next = to->entries;
        to->entries = entry;
    }
    entry->tensor = one;
    one->users++;
    return NRT_SUCCESS;
}

/* ---- models ---- */

NRT_STATUS nrt_load(const void *neff, size_t size, int32_t core, int32_t count, void **model) {
    NRT_STATUS status = enter("nrt_load");
    if (status) return status;
    if (!neff || size < 1024 || count != -1) return NRT_INVALID;
    if (core < 0 || core >= (int)visible_cores()) return NRT_LOAD_NOT_ENOUGH_NC;
    object_t *made = make(MODEL);
    made->core = core;
    made->number = models++;
    loading = made;
    status = load_program ? load_program(made->number, neff, size) : NRT_FAILURE;
    loading = NULL;
    if (status) {
        release(made);
        return status;
    }
    *model = made;
    return NRT_SUCCESS;
}

NRT_STATUS nrt_unload(void *model) {
    NRT_STATUS status = enter("nrt_unload");
    if (status) return status;
    object_t *one = find(model, MODEL, "nrt_unload");
    if (!one) return NRT_INVALID_HANDLE;
    release(one);
    return NRT_SUCCESS;
}

NRT_STATUS nrt_get_model_tensor_info(void *model, nrt_tensor_info_array_t **info) {
    NRT_STATUS status = enter("nrt_get_model_tensor_info");
    if (status) return status;
    object_t *one = find(model, MODEL, "nrt_get_model_tensor_info");
    if (!one) return NRT_INVALID_HANDLE;
    size_t bytes = one->declared_count * sizeof *one->declared;
    *info = malloc(sizeof **info + bytes);
    (*info)->tensor_count = one->declared_count;
    memcpy((*info)->tensor_array, one->declared, bytes);
    return NRT_SUCCESS;
}

NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t *info) {
    free(info);
    return NRT_SUCCESS;
}

/* The memory of every declared tensor of one usage, in order; NULL if a tensor is missing or does not fit. */
static void **memory_of(object_t *model, object_t *set, int usage) {
    void **memory = calloc(model->declared_count + 1, sizeof *memory);
    size_t used = 0, given = 0;
    for (uint64_t i = 0; i < model->declared_count; i++) {
        nrt_tensor_info_t *declared = &model->declared[i];
        if (declared->usage != usage) continue;
        entry_t *entry = entry_of(set, declared->name);
        const char *problem = !entry                                 ? "is missing"
                              : !entry->tensor->alive                ? "was freed"
                              : entry->tensor->size != declared->size ? "has another size"
                              : entry->tensor->core != model->core   ? "is on another core"
                                                                     : NULL;
        if (problem) {
            note("nrt_execute: %s %s", declared->name, problem);
            free(memory);
            return NULL;
        }
        memory[used++] = entry->tensor->data;
    }
    for (entry_t *entry = set->entries; entry; entry = entry->next) given++;
    if (given != used) note("nrt_execute: %zu tensors in a set for %zu", given, used);
    return memory;
}

NRT_STATUS nrt_execute(void *model, const void *input_set, void *output_set) {
    NRT_STATUS status = enter("nrt_execute");
    if (status) return status;
    object_t *one = find(model, MODEL, "nrt_execute");
    object_t *from = find(input_set, SET, "nrt_execute");
    object_t *to = find(output_set, SET, "nrt_execute");
    if (!one || !from || !to) return NRT_INVALID_HANDLE;
    void **inputs = memory_of(one, from, INPUT), **outputs = memory_of(one, to, OUTPUT);
    status = inputs && outputs ? execute_program(one->number, inputs, outputs) : NRT_INVALID;
    free(inputs);
    free(outputs);
    return status;
}

/* ---- for tests ---- */

/* Callbacks that load a program, declaring its tensors, and that execute it. */
void nrt_standin_programs(load_t load, execute_t execute) {
    load_program = load;
    execute_program = execute;
}

/* Declare a tensor of the program that is being loaded. */
void nrt_standin_declare(const char *name, int usage, size_t size) {
    uint64_t count = loading->declared_count++;
    loading->declared = realloc(loading->declared, (count + 1) * sizeof *loading->declared);
    loading->declared[count] = (nrt_tensor_info_t){.usage = usage, .size = size};
    name_it(loading->declared[count].name, name);
}

/* Have a function fail with a status, once, after it was called some times. */
void nrt_standin_fail(const char *function, int status, int after) {
    snprintf(failing, sizeof failing, "%s", function);
    failing_status = status;
    failing_after = after;
}

/* What the machine is: an instance family, its cores, and how many physical ones each is made of. */
void nrt_standin_machine(uint32_t instance_family, uint32_t cores, uint32_t physical_cores) {
    family = instance_family;
    total_cores = cores;
    core_size = physical_cores;
}

/* Objects of a kind that are allocated: 0 tensors, 1 tensor sets, 2 models. */
int nrt_standin_alive(int kind) {
    int count = 0;
    for (object_t *one = objects; one; one = one->next) count += one->alive && (int)one->kind == kind;
    return count;
}

/* One line for each call that broke a rule since this was last called. */
void nrt_standin_notes(char *text, size_t size) {
    snprintf(text, size, "%s", notes);
    notes[0] = 0;
}
