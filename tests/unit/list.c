/* SPDX-License-Identifier: Apache-2.0 */
/* The list through the things it links. */
#include "base/list.h"

#include "check.h"

struct thing {
    int number;
    struct snib__list link;
};

static void check_numbers(const struct snib__list *list, const int *numbers, int n)
{
    const struct snib__list *l = list->after;
    for (int i = 0; i < n; i++, l = l->after) {
        CHECK(l != list);
        CHECK_INT(SNIB__OF(l, const struct thing, link)->number, ==, numbers[i]);
        CHECK(l->after->before == l && l->before->after == l);
    }
    CHECK(l == list);
    CHECK(snib__list_empty(list) == (n == 0));
}

TEST(a_list_keeps_the_order_in_which_things_came)
{
    struct snib__list list;
    struct thing a = {.number = 1}, b = {.number = 2}, c = {.number = 3};
    snib__list_init(&list);
    check_numbers(&list, NULL, 0);
    snib__list_append(&list, &a.link);
    snib__list_append(&list, &b.link);
    snib__list_append(&list, &c.link);
    check_numbers(&list, (const int[]){1, 2, 3}, 3);
    snib__list_remove(&b.link);
    check_numbers(&list, (const int[]){1, 3}, 2);
    snib__list_append(&list, &b.link);
    check_numbers(&list, (const int[]){1, 3, 2}, 3);
}

TEST(removing_twice_does_no_harm)
{
    struct snib__list list;
    struct thing a = {.number = 1}, b = {.number = 2};
    snib__list_init(&list);
    snib__list_append(&list, &a.link);
    snib__list_append(&list, &b.link);
    snib__list_remove(&a.link);
    snib__list_remove(&a.link);
    CHECK(snib__list_empty(&a.link));
    check_numbers(&list, (const int[]){2}, 1);
    snib__list_remove(&b.link);
    check_numbers(&list, NULL, 0);
}
