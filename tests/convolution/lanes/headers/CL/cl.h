// The part of CL/cl.h that programs of ConvPlan.emit("host") use, for a compiler that has no headers of OpenCL.
#include <stddef.h>
#include <stdint.h>
typedef int32_t cl_int; typedef uint32_t cl_uint; typedef uint64_t cl_bitfield;
typedef struct p *cl_platform_id; typedef struct d *cl_device_id; typedef struct c *cl_context;
typedef struct q *cl_command_queue; typedef struct m *cl_mem; typedef struct g *cl_program; typedef struct k *cl_kernel; typedef struct e *cl_event;
typedef cl_bitfield cl_device_type, cl_mem_flags, cl_command_queue_properties; typedef intptr_t cl_context_properties; typedef cl_uint cl_bool, cl_device_info, cl_program_build_info;
enum { CL_SUCCESS = 0, CL_DEVICE_NOT_FOUND = -1, CL_OUT_OF_HOST_MEMORY = -6, CL_TRUE = 1, CL_DEVICE_NAME = 0x102B, CL_PROGRAM_BUILD_LOG = 0x1183 };
#define CL_DEVICE_TYPE_CPU 2
#define CL_DEVICE_TYPE_GPU 4
#define CL_DEVICE_TYPE_ALL 0xFFFFFFFF
#define CL_MEM_READ_WRITE 1
#define CL_MEM_READ_ONLY 4
#define CL_MEM_COPY_HOST_PTR 32
cl_int clGetPlatformIDs(cl_uint, cl_platform_id *, cl_uint *);
cl_int clGetDeviceIDs(cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *);
cl_int clGetDeviceInfo(cl_device_id, cl_device_info, size_t, void *, size_t *);
cl_context clCreateContext(const cl_context_properties *, cl_uint, const cl_device_id *, void (*)(const char *, const void *, size_t, void *), void *, cl_int *);
cl_command_queue clCreateCommandQueue(cl_context, cl_device_id, cl_command_queue_properties, cl_int *);
cl_program clCreateProgramWithSource(cl_context, cl_uint, const char **, const size_t *, cl_int *);
cl_int clBuildProgram(cl_program, cl_uint, const cl_device_id *, const char *, void (*)(cl_program, void *), void *);
cl_int clGetProgramBuildInfo(cl_program, cl_device_id, cl_program_build_info, size_t, void *, size_t *);
cl_mem clCreateBuffer(cl_context, cl_mem_flags, size_t, void *, cl_int *);
cl_kernel clCreateKernel(cl_program, const char *, cl_int *);
cl_int clSetKernelArg(cl_kernel, cl_uint, size_t, const void *);
cl_int clEnqueueNDRangeKernel(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, cl_uint, const cl_event *, cl_event *);
cl_int clEnqueueReadBuffer(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, const cl_event *, cl_event *);
cl_int clFinish(cl_command_queue);
