// SPDX-License-Identifier: Apache-2.0
// What is tested is that the other objects of this program compile and link.
int main() {}
