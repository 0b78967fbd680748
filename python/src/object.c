/* SPDX-License-Identifier: Apache-2.0
 * Makes types and objects. Checks whether this thread and this process may call an object, and whether a signal has come. */
#include "core.h"

#include <sys/syscall.h>
#include <unistd.h>

PyTypeObject *core_type(PyObject *module, const char *name, size_t size, unsigned long flags, PyType_Slot *slots)
{
	PyType_Spec spec = {.name = name, .basicsize = (int)size, .flags = (unsigned int)(Py_TPFLAGS_DEFAULT | flags), .slots = slots};

	return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}

void *core_new(PyTypeObject *type)
{
	return ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

void core_free(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
	Py_DECREF(type);
}

bool core_begin_call(bool *busy, const char *what)
{
	if (*busy) {
		core_raise_state("%s serves one thread at a time: make one for each thread, or hold a lock during its calls", what);
		return false;
	}
	*busy = true;
	return true;
}

bool core_signal_came(void *unused)
{
	PyGILState_STATE gil;
	bool came;

	(void)unused;
	if (syscall(SYS_gettid) != getpid())
		return false;
	gil = PyGILState_Ensure();
	came = PyErr_Occurred() || PyErr_CheckSignals() < 0;
	PyGILState_Release(gil);
	return came;
}

bool core_check_process(pid_t owner, const char *what)
{
	if (getpid() == owner)
		return true;
	core_raise_state(
		"this %s was made in process %ld and its threads live there: after a fork, make a new one in the child (process %ld)", what,
		(long)owner, (long)getpid());
	return false;
}

bool core_is(PyObject *object, destructor dealloc)
{
	for (PyTypeObject *type = Py_TYPE(object); type;) {
		if (!(PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE))
			return false;
		if ((destructor)PyType_GetSlot(type, Py_tp_dealloc) == dealloc)
			return true;
		type = (PyTypeObject *)PyType_GetSlot(type, Py_tp_base);
	}
	return false;
}
