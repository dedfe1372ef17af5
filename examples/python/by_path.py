"""The devices that a program sees which loads the system's library by its path.

    ferroce run -- python3 by_path.py
"""

import ctypes
import glob
import sys

FOLDERS = ["/usr/lib/*-linux-gnu", "/usr/lib64"]


def main():
    paths = [path for folder in FOLDERS for path in glob.glob(f"{folder}/libibverbs.so.1")]
    if not paths:
        sys.exit(f"there is no libibverbs.so.1 in {' or '.join(FOLDERS)}")
    for path in paths:
        verbs = ctypes.CDLL(path, use_errno=True)
        verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
        verbs.ibv_get_device_name.restype = ctypes.c_char_p
        verbs.ibv_get_device_name.argtypes = [ctypes.c_void_p]
        count = ctypes.c_int()
        devices = verbs.ibv_get_device_list(ctypes.byref(count))
        names = [verbs.ibv_get_device_name(devices[i]).decode() for i in range(count.value)]
        print(f"{path}: {', '.join(names) or 'no device'}")


if __name__ == "__main__":
    main()
