// Copyright (c) Microsoft Corporation. All rights reserved.
// Licensed under the MIT License.

// libcurand: the execution provider loads it, and calls nothing of it.
